// Package architecture holds the repository's structure in place. It has only tests: what each package may import and
// why, that the exported API is the one recorded in api/ and stays within its size, that the README's code compiles,
// how files and packages are named and commented, and which versions the modules require.
//
// Nothing imports it. A failure names the rule, the place, and the way to mend it.
package architecture
