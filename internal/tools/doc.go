// Package tools pins the programs that check this repository. The pins are the tool directives of this module's
// go.mod: a module of its own, so that nobody who uses the SDK downloads them.
package tools
