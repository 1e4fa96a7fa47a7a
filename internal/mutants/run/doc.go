// Command run tries the repository's mutants: it breaks one guarded rule at a time in a copy of the repository and
// demands that the test which guards the rule goes red.
//
//	go run ./internal/mutants/run [-dir folder] [-timeout 2m] [name ...]
//
// A mutant is a unified diff internal/mutants/<folder>/<name>.patch against the top of the repository. Lines before the
// diff say which rules it breaks, how, and which test must notice, as a package folder and the test's name:
//
//	# rule: I1
//	# A lease is a copy of what the purse holds, not a part of it.
//	# test: ./internal/engine TestI1_RetriesNeverExceedTokens
//
// internal/mutants/README.md lists all of them by rule; make rules writes it. A diff needs no more context than tells its
// place: what stands around a rule changes more often than the rule.
//
// A mutant is killed when its test passes in the unchanged copy and does not pass with the patch. Everything else is a
// failure of the run: a test that survives, does not exist or is red without the patch, a patch that does not apply or
// does not compile, and no patch at all. With names, of mutants or of folders, only those are tried.
//
// The exit status is 0 when all mutants were killed, 1 when not, and 2 for wrong usage.
package main
