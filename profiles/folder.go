package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of a catalog that is a folder. Each of its files is at most [MaxFileSize] long.
const (
	MaxFiles      = 2000    // files that are read
	MaxFolderSize = 4 << 20 // bytes of all of them together
)

// file is one file of a catalog.
type file struct {
	name  string // in errors
	data  []byte
	group string // the one key that it may have beside version; "" = any
	entry string // the one name that it may have under group; "" = any
}

// subfolders are the folders that are read, which are named after the key that their files have. In some of them each
// file is named after its one entry.
var subfolders = []struct {
	group string
	named bool
}{{"dependencies", true}, {"profiles", false}, {"services", true}}

// LoadFile reads the catalog at path: a file, or a folder with the files *.yaml, profiles/*.yaml,
// dependencies/<name>.yaml and services/<name>.yaml (.yml, too), each a catalog of its own part. Other files and folders,
// and what has a name that begins with a dot, are not read; symbolic links are followed. A folder that changes while it
// is read is read again; if it goes on changing, that is an error. An error of the file system is returned as such; see
// [Load] for the rest.
func LoadFile(path string) (*Catalog, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("chainbudget: catalog: %w", err)
	}
	if info.IsDir() {
		return loadFolder(os.DirFS(path), ".", path, func(name string) string {
			return filepath.Join(path, filepath.FromSlash(name))
		})
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path, info)
	}
	f, err := os.Open(path)
	return loadOpen(f, err, path)
}

// notRegular refuses a pipe, a socket or a device: reading one may never end.
func notRegular(path string, info fs.FileInfo) error {
	return fmt.Errorf("chainbudget: catalog: %.200q is neither a file nor a folder but %v: name a YAML file, or the folder that holds them",
		path, info.Mode().Type())
}

// LoadFS reads the catalog at path of fsys, a file or a folder, as [LoadFile] does; "." is the root of fsys.
func LoadFS(fsys fs.FS, path string) (*Catalog, error) {
	if fsys == nil {
		return nil, errors.New("chainbudget: catalog: there is no file system to read it from")
	}
	info, err := fs.Stat(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("chainbudget: catalog: %w", err)
	}
	if info.IsDir() {
		return loadFolder(fsys, path, path, func(name string) string { return name })
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path, info)
	}
	f, err := fsys.Open(path)
	return loadOpen(f, err, path)
}

func loadOpen(f fs.File, err error, name string) (*Catalog, error) {
	if err != nil {
		return nil, fmt.Errorf("chainbudget: catalog: %w", err)
	}
	defer f.Close()
	data, err := readBounded(f)
	if err != nil {
		return nil, fmt.Errorf("chainbudget: catalog: %w", err)
	}
	return Load(data, name)
}

// readBounded reads one byte more than a file may have, so that a longer one is seen.
func readBounded(f io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(f, MaxFileSize+1))
}

// loadFolder reads the folder dir of fsys. shown makes names of files in fsys into those of errors.
func loadFolder(fsys fs.FS, dir, source string, shown func(string) string) (*Catalog, error) {
	// Files that are swapped or edited meanwhile would make a catalog that nobody wrote.
	for range 3 {
		found, strays, err := list(fsys, dir)
		if err != nil {
			return nil, folderError(source, err, shown)
		}
		files, err := read(fsys, found, shown)
		if err != nil {
			return nil, folderError(source, err, shown)
		}
		again, _, err := list(fsys, dir)
		if err != nil {
			return nil, folderError(source, err, shown)
		}
		if slices.EqualFunc(found, again, same) {
			for i := range strays {
				strays[i].File = shown(strays[i].File)
			}
			return loadWhole(files, source, strays)
		}
	}
	return nil, fmt.Errorf("chainbudget: catalog %s: the folder changes while it is read", quoteFile(source))
}

func folderError(source string, err error, shown func(string) string) error {
	if p := (*folderProblem)(nil); errors.As(err, &p) {
		var list problemList
		list.add(Problem{File: clip(source, maxText), What: p.what, Fix: p.fix})
		return list.err("catalog " + quoteFile(source))
	}
	// The file system knows the path within the folder only.
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = &fs.PathError{Op: p.Op, Path: shown(p.Path), Err: p.Err}
	}
	return fmt.Errorf("chainbudget: catalog: %w", err)
}

// folderProblem is a fault of the folder as a whole.
type folderProblem struct{ what, fix string }

func (p *folderProblem) Error() string { return p.what }

// found is a file that belongs to the catalog.
type found struct {
	file
	info     fs.FileInfo
	size     int64 // as it was then: info may be a live one
	modified time.Time
}

func same(a, b found) bool {
	return a.name == b.name && a.size == b.size && a.modified.Equal(b.modified) &&
		(os.SameFile(a.info, b.info) || !os.SameFile(a.info, a.info)) // which knows the files of package os only
}

// list returns the files of a folder, sorted by name, and folders that somebody may take for a part of the catalog.
func list(fsys fs.FS, dir string) (files []found, strays []Problem, err error) {
	if err := listOne(fsys, dir, "", false, &files, &strays); err != nil {
		return nil, nil, err
	}
	for _, sub := range subfolders {
		at := path.Join(dir, sub.group)
		switch info, err := fs.Stat(fsys, at); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, nil, err
		case info.IsDir():
			if err := listOne(fsys, at, sub.group, sub.named, &files, &strays); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(files) == 0 {
		return nil, nil, &folderProblem{"has no catalog file", "put catalog.yaml into it, or files into profiles/, dependencies/ and services/"}
	}
	slices.SortFunc(files, func(a, b found) int { return cmp.Compare(a.name, b.name) })
	return files, strays, nil
}

func listOne(fsys fs.FS, dir, group string, named bool, files *[]found, strays *[]Problem) error {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		ext := path.Ext(name)
		// Editors and Kubernetes keep their own files under hidden names.
		if strings.HasPrefix(name, ".") {
			continue
		}
		if e.IsDir() {
			if what, fix := stray(name, group); what != "" && len(*strays) < maxProblems {
				*strays = append(*strays, Problem{File: path.Join(dir, name), What: what, Fix: fix})
			}
			continue
		}
		if ext != ".yaml" && ext != ".yml" {
			continue
		}
		f := found{file: file{name: path.Join(dir, name), group: group}}
		if named {
			f.entry = strings.TrimSuffix(name, ext)
		}
		if f.info, err = fs.Stat(fsys, f.name); err != nil { // of what a link points to
			return err
		}
		if !f.info.Mode().IsRegular() {
			continue
		}
		f.size, f.modified = f.info.Size(), f.info.ModTime()
		if len(*files) == MaxFiles {
			return &folderProblem{fmt.Sprintf("has more than %d catalog files", MaxFiles), "put several dependencies into one file at the top of the folder"}
		}
		*files = append(*files, f)
	}
	return nil
}

// stray says what is wrong with a folder that is not read.
func stray(name, group string) (what, fix string) {
	if group != "" {
		return "this folder is not read", "put its files into " + group + "/ itself"
	}
	for _, sub := range subfolders {
		if name != sub.group && distance(clip(name, 64), sub.group) < 3 {
			return "this folder is not read", "rename it to " + sub.group
		}
	}
	return "", ""
}

func read(fsys fs.FS, list []found, shown func(string) string) ([]file, error) {
	files := make([]file, len(list))
	total := 0
	for i, f := range list {
		open, err := fsys.Open(f.name)
		if err != nil {
			return nil, err
		}
		f.data, err = readBounded(open)
		open.Close()
		if err != nil {
			return nil, err
		}
		if total += len(f.data); total > MaxFolderSize {
			return nil, &folderProblem{fmt.Sprintf("its files are larger than %d bytes together", MaxFolderSize), "shorten them"}
		}
		f.name = shown(f.name)
		files[i] = f.file
	}
	return files, nil
}
