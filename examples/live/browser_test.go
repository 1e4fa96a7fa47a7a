package live_test

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screens = flag.String("screens", "", "folder to write screenshots to")

// patience bounds each wait for the browser, on a machine that has other work.
const patience = 30 * time.Second

// browser is one page in Chromium, and what it has done.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	hosts    map[string]int // of the requests that it sent
	failures []string       // what it wrote on the console as an error
}

func open(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: the live page is opened in a real browser. Install it: apt-get install chromium, or brew install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	b := &browser{t: t, ctx: ctx, hosts: map[string]int{}}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("chromium did not end: %v", err)
		}
		closeTab()
		cancel()
	})
	must(t, chromedp.Do(ctx)) // starts it; the context of what follows may be bounded
	must(t, chromedp.Listen(ctx, b.note))
	send(b, network.Enable, network.EnableParams{})
	send(b, log.Enable, cdp.Empty{})
	send(b, runtime.Enable, cdp.Empty{})
	return b
}

func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" {
			b.hosts[u.Scheme+"://"+u.Host]++
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.failures = append(b.failures, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		b.failures = append(b.failures, fmt.Sprintf("%+v", e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			b.failures = append(b.failures, fmt.Sprint(e.Args))
		}
	}
}

// quiet demands that nothing was asked of anybody else, and nothing went wrong.
func (b *browser) quiet(host string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if hosts := slices.Collect(maps.Keys(b.hosts)); !slices.Equal(hosts, []string{host}) {
		b.t.Errorf("it asked %q, and should ask %q only", hosts, host)
	}
	if len(b.failures) > 0 {
		b.t.Errorf("on the console: %q", b.failures)
	}
}

// run makes one step, and returns what it comes to.
func run[T any](b *browser, step chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, step)
	must(b.t, err)
	return value
}

// do makes steps that come to nothing.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, step := range steps {
		run(b, step)
	}
}

// send sends a command of the protocol.
func send[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.Call(ctx, command, params)
	must(b.t, err)
}

// ask evaluates an expression on the page.
func ask[T any](b *browser, expression string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](expression))
}

// js runs a script on the page, and waits for the promise that it may come to.
func (b *browser) js(script string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](script, chromedp.EvalAwaitPromise))
}

// until waits for an expression to become true on the page, which may be on its way to another one.
func (b *browser) until(expression, why string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		switch {
		case ok:
			return
		case ctx.Err() != nil:
			b.t.Fatalf("it did not come: %s (%v)", why, err)
		}
		<-ticker.C
	}
}

// look sets the size of the window and the colors.
func (b *browser) look(width int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 844))
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// shoot takes a picture of the whole page, as wide as it is.
func (b *browser) shoot(name string, width int64) {
	b.t.Helper()
	if *screens == "" {
		return
	}
	picture := run(b, chromedp.FullScreenshot(100))
	must(b.t, os.WriteFile(filepath.Join(*screens, fmt.Sprintf("%s-%d.png", name, width)), picture, 0o644))
}

// table reads the numbers of a table: by the first cell of the row and the head of the column.
func (b *browser) table(id string) map[string]map[string]string {
	b.t.Helper()
	return ask[map[string]map[string]string](b, `(() => {
		const table = document.getElementById("`+id+`"), rows = {};
		const heads = [...table.tHead.rows[0].cells].map((c) => c.textContent.trim());
		for (const row of table.tBodies[0].rows) {
			const cells = rows[row.cells[0].textContent.trim()] = {};
			[...row.cells].forEach((c, i) => { cells[heads[i]] = c.querySelector("data")?.value ?? c.textContent.trim(); });
		}
		return rows;
	})()`)
}

// login makes every request carry the password.
func (b *browser) login() {
	b.t.Helper()
	word := base64.StdEncoding.EncodeToString([]byte("operator:" + password))
	send(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Basic " + word}})
}

// sideways returns how wide the page is and what makes it so, "" if it does not scroll sideways.
func (b *browser) sideways() string {
	b.t.Helper()
	return ask[string](b, `(() => {
		const page = document.documentElement, width = page.clientWidth;
		if (page.scrollWidth <= width) return "";
		const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > width + 1);
		return page.scrollWidth + " px: " + wide.slice(0, 5).map((e) => e.tagName + "#" + e.id + "." + e.className).join(" ");
	})()`)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, want, got T, what string, of ...any) {
	t.Helper()
	if want != got {
		t.Errorf("%s: want %v, got %v", fmt.Sprintf(what, of...), want, got)
	}
}

func holds(t *testing.T, ok bool, what string, of ...any) {
	t.Helper()
	if !ok {
		t.Errorf("not so: "+what, of...)
	}
}
