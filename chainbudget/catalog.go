package chainbudget

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// WithCatalogFile loads the catalog from a YAML file, or from a folder of them as [profiles.LoadFile] does, in place of the
// embedded default catalog, and follows it until [SDK.Close]: a change is in force within a second, as a whole or not at all.
//
// A request keeps the catalog that it arrived under; only "retries: disabled" also stops those under way, also while they
// wait to retry. Counts, breakers and what was learned stay. What cannot be read, is not valid, or has no profile for a
// dependency in use leaves the last good catalog in force: [SDK.Catalog] says so, and slog.Default is warned once for
// each error. That holds for the first one too: when the file becomes good, it is loaded.
//
// Write a changed file beside the old one and rename it: a file that is read when half of it is written may be valid. A
// relative path is one of the working directory that New was called in, an empty one is no path: the embedded catalog is in
// force. In a testing/synctest bubble use [WithCatalogFS].
func WithCatalogFile(path string) Option {
	return Option{func(s *settings) { s.catalogFile = path }}
}

// WithCatalogFS loads the catalog from the file or folder at path of fsys, which an embed.FS may be, in place of the embedded default
// catalog. It is read once: a file system of this kind cannot tell of changes.
func WithCatalogFS(fsys fs.FS, path string) Option {
	return Option{func(s *settings) { s.fromFS, s.catalogFS, s.catalogPath = true, fsys, path }}
}

// catalog returns the catalog that the options name; the embedded one if they name none or it is bad.
func (s *settings) catalog() (*profiles.Catalog, error) {
	var c *profiles.Catalog
	var err error
	switch {
	case s.catalogFile != "" && s.fromFS:
		err = errors.New("chainbudget: there are two catalogs, WithCatalogFile and WithCatalogFS: give one")
		s.catalogFile = ""
	case s.catalogFile != "":
		s.catalogFile = absolute(s.catalogFile)
		c, err = profiles.LoadFile(s.catalogFile)
	case s.fromFS:
		c, err = profiles.LoadFS(s.catalogFS, s.catalogPath)
	}
	if c == nil {
		c = profiles.Builtin()
	}
	return c, err
}

// absolute makes a path one that stays the same when the process changes its working directory.
func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	folder, err := os.Getwd()
	if err != nil {
		return path
	}
	if strings.Contains(path, "..") {
		return folder + string(filepath.Separator) + path // behind a link, ".." is not what Join makes of it
	}
	return filepath.Join(folder, path)
}

// CatalogStatus says which catalog is in force.
type CatalogStatus struct {
	// Generation counts the catalogs that were in force, from 1 for the one that New loaded. A file that changes without
	// meaning something else is no other catalog.
	Generation int
	// Source is the path that it was read from, Digest 8 hex digits for all of it: the same in every process that has
	// the same catalog.
	Source, Digest string
	// Since is when it came in force.
	Since time.Time
	// Err is why the newest catalog is not the one in force: that could not be read, is not valid, or has no profile for a
	// dependency in use. Nil means that it is.
	Err error
	// Warnings are what this catalog says that is likely a mistake. The slice is shared and must not be changed.
	Warnings []profiles.Problem
	// Rejected counts the changes that were refused. One that fails as the one before it did is the same.
	Rejected int64
}

// Catalog tells which catalog is in force and whether it is the newest. It may be called often.
func (s *SDK) Catalog() CatalogStatus {
	if !s.engine().Usable() {
		return CatalogStatus{}
	}
	status := s.engine().CatalogStatus()
	g := status.Generation
	return CatalogStatus{
		Generation: int(g.Number()), Source: g.Catalog().Source, Digest: g.Digest(), Since: g.Since(),
		Err: status.Err, Warnings: g.Catalog().Warnings, Rejected: status.Rejected,
	}
}
