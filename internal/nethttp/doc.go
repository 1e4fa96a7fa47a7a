// Package nethttp is what net/http does below an adapter's attempt without being asked, seen and stopped through its
// traces, and what its errors prove.
package nethttp
