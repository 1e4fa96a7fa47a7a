// Package ctxkey holds the context keys that several packages of this module share. A key is an empty struct type, so
// that looking one up compares a type and allocates nothing, and so that nobody outside the module can forge one.
package ctxkey
