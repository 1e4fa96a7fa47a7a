package proxies

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// program is how a proxy's binary is found and run.
type program struct {
	name    string
	paths   []string // where it may be, beside the PATH
	install string   // how to get it
	args    func(folder, config string) []string
	config  func(folder, listen, snippet string) string // the whole file, around a snippet
}

func (p program) find(t *testing.T) string {
	t.Helper()
	for _, name := range append([]string{p.name}, p.paths...) {
		if path, err := exec.LookPath(name); err == nil || errors.Is(err, exec.ErrDot) {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
	}
	t.Fatalf("%s is missing: this test sends requests through a real one. %s", p.name, p.install)
	return ""
}

// start runs the program with a snippet on a free port of the loopback interface until the test ends, and returns the
// address on which it listens.
func (p program) start(t *testing.T, snippet string) string {
	t.Helper()
	binary := p.find(t)
	var output string
	// A free port may be taken between the time it was found and the time the proxy listens.
	for range 5 {
		address := freeAddress(t)
		folder := t.TempDir()
		config := filepath.Join(folder, "config")
		if err := os.WriteFile(config, []byte(p.config(folder, address, snippet)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, p.args(folder, config)...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
		log := new(journalOfOutput)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		up, err := listening(address, exited)
		if up {
			t.Cleanup(func() {
				// Nothing that it could do while it shuts down is of use here.
				_ = cmd.Process.Kill()
				<-exited
				if t.Failed() {
					t.Logf("%s said:\n%s", p.name, log)
				}
			})
			return address
		}
		_ = cmd.Process.Kill()
		output = fmt.Sprintf("%v\n%s", err, log)
		if !strings.Contains(strings.ToLower(output), "in use") {
			break
		}
	}
	t.Fatalf("%s does not start: %s\nwith the configuration\n%s", p.name, output, p.config("FOLDER", "ADDRESS", snippet))
	return ""
}

// listening waits until somebody listens on the address, or the process has exited.
func listening(address string, exited chan error) (bool, error) {
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return true, nil
		}
		select {
		case err := <-exited:
			return false, fmt.Errorf("it exited: %w", err)
		case <-deadline.C:
			return false, errors.New("it does not listen after 20 seconds")
		case <-poll.C:
		}
	}
}

// ports are those that tests of this process have asked for.
var ports sync.Map

// freeAddress returns an address of the loopback interface on which nobody listens. The port is below those that systems
// hand out by themselves, so that no server of another test gets it before a proxy listens there.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(12000)
		if _, taken := ports.LoadOrStore(port, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port found")
	return ""
}

// journalOfOutput is what a process printed.
type journalOfOutput struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*journalOfOutput)(nil)

func (j *journalOfOutput) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journalOfOutput) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}
