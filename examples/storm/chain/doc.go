// Package chain runs a chain of HTTP services in which one fails, and counts what each of them receives under different
// retry policies.
package chain
