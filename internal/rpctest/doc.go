// Package rpctest is what the tests of the adapters of procedure calls have in common: catalogs, servers on loopback, and the
// tables about chains.
package rpctest
