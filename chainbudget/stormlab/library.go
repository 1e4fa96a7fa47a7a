package stormlab

import (
	"embed"
	"io/fs"
)

//go:embed scenarios/*.yaml
var library embed.FS

// Library returns scenarios of published incidents and rules, one file each, with the source in its first lines. They are
// meant to be read, run, and copied as the beginning of one's own.
func Library() fs.FS {
	files, err := fs.Sub(library, "scenarios")
	if err != nil {
		panic(err) // the path is a constant
	}
	return files
}
