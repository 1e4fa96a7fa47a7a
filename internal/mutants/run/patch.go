package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one patch and the test that must notice it.
type mutant struct {
	name  string // of the patch file, without .patch
	patch string // absolute path of the patch file
	target
}

// A target is one test: a package's folder below the top of the repository, and the test's name, which may name a
// subtest after a slash.
type target struct {
	pkg, test string
}

func (t target) String() string { return t.pkg + " " + t.test }

const testHeader = "# test:"

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

// readMutants reads the patches of a folder, sorted by name. With names, it reads only those. All problems are in the
// error.
func readMutants(dir string, names []string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var (
		mutants  []mutant
		problems []error
	)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		named, err := parseTarget(string(text))
		if err != nil {
			problems = append(problems, fmt.Errorf("%s.patch: %w", name, err))
			continue
		}
		if file, err = filepath.Abs(file); err != nil {
			return nil, err
		}
		mutants = append(mutants, mutant{name: name, patch: file, target: named})
	}
	for _, name := range names {
		if !slices.Contains(files, filepath.Join(dir, name+".patch")) {
			problems = append(problems, fmt.Errorf("no patch %s.patch in %s", name, dir))
		}
	}
	if len(mutants) == 0 && problems == nil {
		problems = append(problems, fmt.Errorf("no *.patch in %s: nothing is guarded", dir))
	}
	return mutants, errors.Join(problems...)
}
