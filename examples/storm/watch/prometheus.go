package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// server is a Prometheus in a process of its own.
type server struct {
	URL string

	process *os.Process
	said    *journal
	exited  chan struct{} // closed when the process has ended
	err     error         // how; set before exited is closed
}

var errMissing = errors.New("prometheus is missing: the storm is shown to a real one. Install it: apt-get install prometheus, or brew install prometheus")

// startPrometheus runs one that scrapes the targets twice a second, and evaluates the rules once a second. Its files are in dir.
// Once it is ready, end is told when it ends.
func startPrometheus(ctx context.Context, end context.CancelCauseFunc, dir, rules string, targets []*target) (*server, error) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, errMissing
	}
	if err := hastenAll(rules, dir); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, configuration(targets), 0o600); err != nil {
		return nil, err
	}
	var s *server
	for range 5 { // a free port may be taken between the time it was found and the time Prometheus listens
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
		s = &server{URL: "http://" + address, said: &journal{}, exited: make(chan struct{})}
		cmd.Stdout, cmd.Stderr = s.said, s.said
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("start prometheus: %w", err)
		}
		s.process = cmd.Process
		go func() {
			defer close(s.exited)
			s.err = cmd.Wait()
		}()
		if err = s.ready(ctx); err == nil {
			go func() {
				<-s.exited
				end(fmt.Errorf("prometheus has ended: %v\n%s", s.err, s.said))
			}()
			return s, nil
		}
		_ = s.close()
		if !strings.Contains(s.said.String(), "in use") {
			return nil, fmt.Errorf("prometheus does not start: %w\n%s", err, s.said)
		}
	}
	return nil, fmt.Errorf("prometheus does not find a free port:\n%s", s.said)
}

// configuration is Prometheus' file.
func configuration(targets []*target) []byte {
	var b bytes.Buffer
	b.WriteString("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}\n" +
		"rule_files: ['*.rules.yaml']\n" +
		"scrape_configs:\n  - job_name: storm\n    static_configs:\n")
	for _, t := range targets {
		fmt.Fprintf(&b, "      - {targets: ['%s'], labels: {environment: %s, app: %s}}\n", t.address(), t.run, t.service)
	}
	return b.Bytes()
}

// freeAddress returns an address of the loopback interface on which nobody listens. The port is below those that systems hand out by
// themselves, so that no other server gets it meanwhile.
func freeAddress() (string, error) {
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("no free port found")
}

// ready returns when it answers.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !s.has(ctx, "/-/ready") {
		select {
		case <-s.exited:
			return fmt.Errorf("it exited: %w", s.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
	return nil
}

// has reports whether there is such a page.
func (s *server) has(ctx context.Context, path string) bool {
	base := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return false
	}
	resp, err := base.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// alerts is the page with the alerts. Debian's Prometheus has the old pages only.
func (s *server) alerts(ctx context.Context) string {
	if old := "/classic/alerts"; s.has(ctx, old) {
		return s.URL + old
	}
	return s.URL + "/alerts"
}

// close ends the process. Nothing that it would do while it shuts down is of use here.
func (s *server) close() error {
	if err := s.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	return nil
}

// journal is what a process says.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.text.Len() > 1<<20 {
		return len(p), nil // whoever says so much repeats itself
	}
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
