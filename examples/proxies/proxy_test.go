package proxies

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// setting is how a proxy is told about retries.
type setting int

const (
	byDefault setting = iota // it is told nothing
	retrying                 // it is told to repeat whatever it can repeat
	turnedOff                // it is told to repeat nothing: the block of the document as it stands
)

func (s setting) String() string { return [...]string{"by_default", "retrying", "turned_off"}[s] }

var settings = []setting{byDefault, retrying, turnedOff}

// proxy is a proxy between two hops. Its snippet is a block of docs/proxies.md, in which a line that ends in a remark
// with "retries off" is what turns retries off.
type proxy struct {
	program
	block string   // the language of the block in the document
	retry []string // stand where the first line that turns retries off stood, when retrying
	// timeout is the setting, as a pattern with the time as group 1, that ends an attempt which is not answered.
	timeout *regexp.Regexp
}

var (
	nginx = proxy{
		program: program{
			name: "nginx", paths: []string{"/usr/sbin/nginx"}, install: "Install it: apt-get install nginx, or brew install nginx.",
			args: func(folder, config string) []string { return []string{"-p", folder, "-c", config, "-e", "stderr"} },
			config: func(folder, listen, snippet string) string {
				temporary := ""
				for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
					temporary += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(folder, kind))
				}
				snippet = strings.Replace(snippet, "listen 8000", "listen "+listen, 1)
				return "daemon off; master_process off; pid " + filepath.Join(folder, "pid") + ";\nevents {}\nhttp {\naccess_log off;\n" +
					temporary + snippet + "\n}\n"
			},
		},
		block:   "nginx",
		retry:   []string{"proxy_next_upstream error timeout http_502 http_503 http_504;"},
		timeout: regexp.MustCompile(`(?:proxy|grpc)_read_timeout (\w+);`),
	}
	haproxy = proxy{
		program: program{
			name: "haproxy", paths: []string{"/usr/sbin/haproxy"}, install: "Install it: apt-get install haproxy, or brew install haproxy.",
			args: func(_, config string) []string { return []string{"-db", "-f", config} },
			config: func(_, listen, snippet string) string {
				// It waits as long before it connects again.
				snippet = strings.Replace(snippet, "timeout connect 1s", "timeout connect 100ms", 1)
				return strings.Replace(snippet, "bind :8000", "bind "+listen, 1) + "\n"
			},
		},
		block:   "haproxy",
		retry:   []string{"retries 3", "option redispatch 1", "retry-on all-retryable-errors"},
		timeout: regexp.MustCompile(`timeout server +(\w+)`),
	}
	caddy = proxy{
		program: program{
			name: "caddy", paths: []string{"../../.bin/caddy"}, install: "Build the pinned one: make tools, in the repository's top folder.",
			args: func(_, config string) []string {
				return []string{"run", "--adapter", "caddyfile", "--config", config}
			},
			config: func(_, listen, snippet string) string {
				return "{\nadmin off\nauto_https off\npersist_config off\nservers {\nprotocols h1 h2c\n}\n}\n" + strings.Replace(snippet, ":8000", "http://"+listen, 1) + "\n"
			},
		},
		block:   "caddyfile",
		retry:   []string{"lb_retries 3", "lb_retry_match method GET POST"},
		timeout: regexp.MustCompile(`response_header_timeout (\w+)`),
	}
	allProxies = []proxy{nginx, haproxy, caddy}
)

// retriesOff ends the lines of a block that turn retries off.
const retriesOff = "# retries off"

// documentBlocks returns the fenced blocks of docs/proxies.md in a language, in order.
func documentBlocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "proxies.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, closed := strings.Cut(part, "\n```")
		if !closed {
			t.Fatalf("a block of %s in docs/proxies.md does not end", language)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// snippet is a block of the document, for a setting, with the addresses of the instances in place of ledger-1, ledger-2.
func (p proxy) snippet(t *testing.T, block string, s setting, instances ...string) string {
	t.Helper()
	var lines []string
	off := 0
	for line := range strings.SplitSeq(block, "\n") {
		line, turnsOff := strings.CutSuffix(line, retriesOff)
		if !turnsOff || s == turnedOff {
			lines = append(lines, line)
		} else if s == retrying && off == 0 {
			for _, r := range p.retry {
				if strings.Contains(block, "grpc_pass") {
					r = strings.Replace(r, "proxy_", "grpc_", 1)
				}
				lines = append(lines, r)
			}
		}
		if turnsOff {
			off++
		}
	}
	if off == 0 {
		t.Fatalf("no line of the block ends in %q:\n%s", retriesOff, block)
	}
	text := strings.Join(lines, "\n")
	for i := 1; ; i++ {
		name := fmt.Sprintf("ledger-%d.internal:8080", i)
		if !strings.Contains(text, name) {
			if i <= len(instances) {
				t.Fatalf("the block has no place for instance %d:\n%s", i, block)
			}
			return text
		}
		if i <= len(instances) {
			text = strings.ReplaceAll(text, name, instances[i-1])
			continue
		}
		// A server's line goes as a whole, one address of several goes alone.
		text = regexp.MustCompile(`(?m)^\s*server .*`+regexp.QuoteMeta(name)+`.*$`).ReplaceAllString(text, "")
		text = regexp.MustCompile(` \S*`+regexp.QuoteMeta(name)).ReplaceAllString(text, "")
	}
}

// hasty makes an attempt that is not answered end soon.
func (p proxy) hasty(t *testing.T, snippet string) string {
	t.Helper()
	if !p.timeout.MatchString(snippet) {
		t.Fatalf("no timeout in\n%s", snippet)
	}
	return p.timeout.ReplaceAllStringFunc(snippet, func(line string) string {
		return strings.Replace(line, p.timeout.FindStringSubmatch(line)[1], "100ms", 1)
	})
}

// http is the block of the document for HTTP.
func (p proxy) http(t *testing.T) string {
	t.Helper()
	return documentBlocks(t, p.block)[0]
}
