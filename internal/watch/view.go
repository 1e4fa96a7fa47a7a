package watch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// subfolders are those of a folder of catalog files that have files too.
var subfolders = []string{"profiles", "dependencies", "services"}

const (
	// maxLinks bounds the symbolic links on the way to one file, as the kernel does.
	maxLinks = 40
	// maxFolders bounds what one Watcher takes of the watches that all processes of a user share. Beyond it there is the poll.
	maxFolders = 128
	// maxFiles bounds the work of a look. A catalog does not have so many.
	maxFiles = 10_000
)

// view is how a path looks at one moment: what has to be watched to see a change of it, and what tells that it changed.
type view struct {
	folders map[string]*interest // by their path without symbolic links
	marks   []mark
}

// interest is what matters in one folder.
type interest struct {
	names   map[string]struct{}
	catalog bool // and every catalog file
}

// mark is what one stop on the way looks like.
type mark struct {
	path string
	link string // what it points to
	info fs.FileInfo
	err  string
}

// look looks at an absolute path.
func look(path string) *view {
	v := &view{folders: map[string]*interest{}}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	end, info := v.follow(root, parts(path[len(filepath.VolumeName(path)):]))
	if info == nil || !info.IsDir() {
		return v
	}
	v.list(end)
	for _, name := range subfolders {
		v.interest(end).names[name] = struct{}{}
		if sub, info := v.follow(end, []string{name}); info != nil && info.IsDir() {
			v.list(sub)
		}
	}
	return v
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) })
}

func (v *view) interest(folder string) *interest {
	i := v.folders[folder]
	if i == nil {
		i = &interest{names: map[string]struct{}{}}
		v.folders[folder] = i
	}
	return i
}

// follow goes from a folder along the names, through symbolic links, and returns where it ends; no info if it ends before.
func (v *view) follow(at string, names []string) (string, fs.FileInfo) {
	links := 0
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		switch name {
		case ".":
			continue
		case "..": // at has no links left, so the folder above is the one that the kernel means
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			v.marks = append(v.marks, mark{path: next, err: err.Error()})
			v.see(at, name)
			return next, nil
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			v.marks = append(v.marks, mark{path: next, info: info})
			if len(names) == 0 {
				v.see(at, name)
				return next, info
			}
			at = next
			continue
		}
		v.see(at, name)
		target, err := os.Readlink(next)
		if links++; err == nil && links > maxLinks {
			err = fs.ErrInvalid
		}
		m := mark{path: next, link: target, info: info}
		if err != nil {
			m.err = err.Error()
			v.marks = append(v.marks, m)
			return next, nil
		}
		v.marks = append(v.marks, m)
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
			target = target[len(filepath.VolumeName(target)):]
		}
		names = append(parts(target), names...)
	}
	info, err := os.Lstat(at) // the root, or a link to ".."
	if err != nil {
		return at, nil
	}
	v.marks = append(v.marks, mark{path: at, info: info})
	return at, info
}

// see notes that a name in a folder matters. A folder that is a file, or cannot be entered, is watched from above.
func (v *view) see(folder, name string) {
	for {
		info, err := os.Lstat(folder)
		if err == nil && info.IsDir() || filepath.Dir(folder) == folder {
			v.interest(folder).names[name] = struct{}{}
			return
		}
		folder, name = filepath.Dir(folder), filepath.Base(folder)
	}
}

// list notes the catalog files of a folder.
func (v *view) list(folder string) {
	v.interest(folder).catalog = true
	entries, err := os.ReadDir(folder)
	if err != nil {
		v.marks = append(v.marks, mark{path: folder, err: err.Error()})
	}
	for _, e := range entries {
		if isCatalog(e.Name()) && len(v.marks) < maxFiles {
			v.follow(folder, []string{e.Name()})
		}
	}
}

func isCatalog(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"))
}

// matters reports whether a change of what stands at path, as the operating system names it, can matter.
func (v *view) matters(path string) bool {
	if _, self := v.folders[path]; self {
		return true
	}
	i := v.folders[filepath.Dir(path)]
	if i == nil {
		return false
	}
	name := filepath.Base(path)
	_, named := i.names[name]
	return named || i.catalog && isCatalog(name)
}

// like reports whether nothing seems to have changed between two views.
func (v *view) like(other *view) bool {
	return slices.EqualFunc(v.marks, other.marks, func(a, b mark) bool {
		if a.path != b.path || a.link != b.link || a.err != b.err || (a.info == nil) != (b.info == nil) {
			return false
		}
		return a.info == nil || sameFile(a.info, b.info)
	})
}

func sameFile(a, b fs.FileInfo) bool {
	if !os.SameFile(a, b) || a.Mode() != b.Mode() {
		return false
	}
	// A folder's size and time change with every file in it, most of which do not matter.
	return a.IsDir() || a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// sameFolders reports whether the same folders have to be watched.
func (v *view) sameFolders(other *view) bool {
	if len(v.folders) != len(other.folders) {
		return false
	}
	for folder := range v.folders {
		if other.folders[folder] == nil {
			return false
		}
	}
	return true
}
