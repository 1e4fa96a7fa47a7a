package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// newProgress returns what is told how far a run is, nil unless w is a terminal, and what removes it from there.
func newProgress(w io.Writer, name string) (progress func(share float64), end func()) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, func() {}
	}
	const steps = 1000
	bar := progressbar.NewOptions(steps, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(name),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
	return func(share float64) { _ = bar.Set(int(share * steps)) }, func() { _ = bar.Finish() }
}
