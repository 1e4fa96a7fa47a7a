package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A repositoryCopy is a copy of the repository that patches may change.
type repositoryCopy struct {
	dir     string
	timeout time.Duration // of one test
}

// copyRepository copies the regular files below src to dst, without git's own and without built tools.
func copyRepository(dst, src string) error {
	return filepath.WalkDir(src, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, name)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == ".bin"):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(to, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, info.Mode().Perm())
	})
}

// patch applies a patch, or takes it back.
func (c repositoryCopy) patch(ctx context.Context, file string, reverse bool) error {
	args := []string{"apply", "--whitespace=nowarn"}
	if reverse {
		args = append(args, "--reverse")
	}
	cmd := exec.CommandContext(ctx, "git", append(args, file)...)
	cmd.Dir = c.dir
	// Inside somebody's checkout, git apply silently skips files that are not below the current folder.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// run runs the tests of a package that match a pattern, in the module that the package belongs to, and returns the output of
// go test -json.
func (c repositoryCopy) run(ctx context.Context, pkg, pattern string) ([]byte, error) {
	dir := filepath.Join(c.dir, filepath.FromSlash(pkg))
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("no package folder %s", pkg)
	}
	// Started in the package's folder, the go command finds the module by itself.
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off",
		"-timeout="+c.timeout.String(), "-run="+pattern, ".")
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second // the test's own process holds the pipe after the go command was killed
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return out, err
	}
	return out, nil // judge says what the exit status means
}

// runPattern returns the -run pattern that matches exactly the test, element by element.
func runPattern(test string) string {
	elements := strings.Split(test, "/")
	for i, element := range elements {
		elements[i] = "^" + regexp.QuoteMeta(element) + "$"
	}
	return strings.Join(elements, "/")
}
