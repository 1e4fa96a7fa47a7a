package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far the run is: a bar on a terminal, a line every few seconds elsewhere.
type progress struct {
	w    io.Writer
	bar  *progressbar.ProgressBar // nil elsewhere
	last time.Time
}

// barSteps is the resolution of the bar.
const barSteps = 1000

// lineEvery is the pause between plain lines.
const lineEvery = 3 * time.Second

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(barSteps,
			progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(10), progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond),
		)
	}
	return p
}

// show says what is going on, with share of the whole run done. A plain line is left out when one was written a moment
// ago, unless it is a new part of the run.
func (p *progress) show(share float64, part bool, text string) {
	share = min(max(share, 0), 1)
	if p.bar != nil {
		p.bar.Describe(text)
		_ = p.bar.Set(min(int(share*barSteps), barSteps-1)) // a bar that cannot be drawn is no reason to stop
		return
	}
	if now := time.Now(); part || now.Sub(p.last) >= lineEvery {
		p.last = now
		fmt.Fprintf(p.w, "%3.0f %%  %s\n", share*100, text)
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish() // as above
	}
}
