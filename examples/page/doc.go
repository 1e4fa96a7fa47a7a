// Package page reads pages of the documentation for tests: what they quote must be code that compiles, and what their tables
// say must be what a test has measured.
package page
