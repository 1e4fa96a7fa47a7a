package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one patch, the rules that it breaks and the test that must notice it.
type mutant struct {
	name  string // of the patch file below the folder of all, without .patch
	patch string // absolute path of the patch file
	rules []string
	says  string // what is broken, in one sentence
	target
}

// A target is one test: a package's folder below the top of the repository, and the test's name, which may name a
// subtest after a slash.
type target struct {
	pkg, test string
}

func (t target) String() string { return t.pkg + " " + t.test }

const (
	testHeader = "# test:"
	ruleHeader = "# rule:"
)

// parseRules finds the rules that a patch names in the lines before its diff, and what it says about itself there.
func parseRules(text string) (rules []string, says string, err error) {
	var sentence []string
	for line := range strings.SplitSeq(text, "\n") {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		if rule, ok := strings.CutPrefix(line, ruleHeader); ok {
			rules = append(rules, strings.TrimSpace(rule))
		} else if !strings.HasPrefix(line, testHeader) {
			sentence = append(sentence, strings.Fields(comment)...)
		}
	}
	says = strings.Join(sentence, " ")
	switch {
	case len(rules) == 0 || slices.Contains(rules, ""):
		return nil, "", fmt.Errorf("no line %q, or an empty one, on top", ruleHeader+" <rule>")
	case says == "":
		return nil, "", errors.New("no sentence on top that says what is broken")
	}
	return rules, says, nil
}

// parseTarget finds the test that a patch names in the lines before its diff.
func parseTarget(text string) (target, error) {
	var found []target
	hunks := false
	for i, line := range strings.Split(text, "\n") {
		hunks = hunks || strings.HasPrefix(line, "@@ ")
		value, ok := strings.CutPrefix(line, testHeader)
		if !ok || hunks {
			continue
		}
		words := strings.Fields(value)
		if len(words) != 2 {
			return target{}, fmt.Errorf("line %d: %q has %d words, want a package folder and a test", i+1, line, len(words))
		}
		pkg := path.Clean(words[0])
		if pkg == ".." || strings.HasPrefix(pkg, "../") || path.IsAbs(pkg) {
			return target{}, fmt.Errorf("line %d: package folder %q is not below the top of the repository", i+1, words[0])
		}
		if !strings.HasPrefix(words[1], "Test") && !strings.HasPrefix(words[1], "Fuzz") {
			return target{}, fmt.Errorf("line %d: %q is no name of a test", i+1, words[1])
		}
		found = append(found, target{pkg: pkg, test: words[1]})
	}
	switch {
	case len(found) == 0:
		return target{}, fmt.Errorf("no line %q before the diff", testHeader+" <package folder> <TestName>")
	case len(found) > 1:
		return target{}, fmt.Errorf("%d lines %q, want one", len(found), testHeader)
	case !hunks:
		return target{}, errors.New("no hunk of a unified diff")
	}
	return found[0], nil
}

// findPatches returns the names of all patches below a folder, sorted: their paths with slashes, without .patch.
func findPatches(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		name, ok := strings.CutSuffix(file, ".patch")
		if err != nil || entry.IsDir() || !ok {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	return names, err
}

// asked reports whether somebody who asks for wanted means the patch called name: by the whole name, by its last part, or by
// its folder.
func asked(name, wanted string) bool {
	return name == wanted || path.Base(name) == wanted || strings.HasPrefix(name, strings.TrimSuffix(wanted, "/")+"/")
}

// readMutants reads the patches below a folder, sorted by name. With names of patches or of folders, it reads only those.
// All problems are in the error.
func readMutants(dir string, wanted []string) ([]mutant, error) {
	names, err := findPatches(dir)
	if err != nil {
		return nil, err
	}
	var (
		mutants  []mutant
		problems []error
	)
	for _, name := range names {
		if len(wanted) > 0 && !slices.ContainsFunc(wanted, func(w string) bool { return asked(name, w) }) {
			continue
		}
		m, err := readMutant(dir, name)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s.patch: %w", name, err))
			continue
		}
		mutants = append(mutants, m)
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(names, func(name string) bool { return asked(name, w) }) {
			problems = append(problems, fmt.Errorf("no patch %s.patch, and no folder of that name, in %s", w, dir))
		}
	}
	if len(mutants) == 0 && problems == nil {
		problems = append(problems, fmt.Errorf("no *.patch in %s: nothing is guarded", dir))
	}
	return mutants, errors.Join(problems...)
}

func readMutant(dir, name string) (mutant, error) {
	file, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(name)+".patch"))
	if err != nil {
		return mutant{}, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: name, patch: file}
	if m.target, err = parseTarget(string(text)); err != nil {
		return mutant{}, err
	}
	m.rules, m.says, err = parseRules(string(text))
	return m, err
}
