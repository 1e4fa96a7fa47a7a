// Command run tries the repository's mutants: it breaks one guarded rule at a time in a copy of the repository and
// demands that the test which guards the rule goes red.
//
//	go run ./internal/mutants/run [-dir folder] [-timeout 5m] [name ...]
//
// A mutant is a unified diff internal/mutants/<name>.patch against the top of the repository. Lines before the diff
// say what it is about; one of them names the test, as a package folder and the test's name:
//
//	# test: ./internal/engine TestI1_RetriesNeverExceedTokens
//
// A mutant is killed when its test passes in the unchanged copy and does not pass with the patch. Everything else is a
// failure of the run: a test that survives, does not exist or is red without the patch, a patch that does not apply or
// does not compile, and no patch at all. With names, only those mutants are tried.
//
// The exit status is 0 when all mutants were killed, 1 when not, and 2 for wrong usage.
package main
