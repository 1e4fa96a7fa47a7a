package profiles

import (
	"net/netip"
	"strconv"
	"strings"
)

// hostIndex finds what a host belongs to. Keys are lower-case, without brackets around an IPv6 address unless a port
// follows, and without a dot at the end.
type hostIndex struct {
	exact    map[string]string // "payments.internal", "10.0.0.7:8080", "[fd00::1]:80"
	suffix   map[string]string // ".corp.example.com"; with a port ".corp.example.com:8080"
	anyPorts bool              // some key has a port, so that ports have to be looked at
}

// find looks for host and then, from the longest to the shortest, for the suffixes that it has. A key with a port goes
// before one without. It allocates nothing.
func (x *hostIndex) find(host, port string) (string, bool) {
	if x.anyPorts && port != "" {
		var buf [maxHostLen + 8]byte
		key := buf[:0]
		if strings.IndexByte(host, ':') >= 0 {
			key = append(append(append(key, '['), host...), ']')
		} else {
			key = append(key, host...)
		}
		key = append(append(key, ':'), port...)
		if v, ok := x.lookUp(key); ok {
			return v, true
		}
	}
	if v, ok := x.exact[host]; ok {
		return v, true
	}
	if len(x.suffix) == 0 {
		return "", false
	}
	for i := strings.IndexByte(host, '.'); i >= 0; {
		if v, ok := x.suffix[host[i:]]; ok {
			return v, true
		}
		next := strings.IndexByte(host[i+1:], '.')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return "", false
}

func (x *hostIndex) lookUp(key []byte) (string, bool) {
	if v, ok := x.exact[string(key)]; ok {
		return v, true
	}
	if len(x.suffix) == 0 {
		return "", false
	}
	for i, c := range key {
		if c == '.' {
			if v, ok := x.suffix[string(key[i:])]; ok {
				return v, true
			}
		}
	}
	return "", false
}

// add enters a pattern that [parseHostPattern] accepted. It returns who has it already.
func (x *hostIndex) add(p hostPattern, owner string) (holder string, taken bool) {
	m, key := &x.exact, p.key()
	if p.suffix {
		m = &x.suffix
	}
	if p.port != "" {
		x.anyPorts = true
	}
	if holder, taken = (*m)[key]; taken {
		return holder, true
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = owner
	return "", false
}

const maxHostLen = 253

type hostPattern struct {
	host   string // lower-case; with suffix it begins with a dot
	port   string
	suffix bool
}

// key spells the pattern as [hostIndex] does.
func (p hostPattern) key() string {
	switch {
	case p.port == "":
		return p.host
	case strings.IndexByte(p.host, ':') >= 0:
		return "[" + p.host + "]:" + p.port
	}
	return p.host + ":" + p.port
}

// parseHostPattern reads an exact host or "*.suffix", each with a port or without; what is wrong, or "".
func parseHostPattern(s string) (p hostPattern, what string) {
	if strings.Contains(s, "/") {
		return p, "a host has no scheme and no path"
	}
	host, port, ok := splitHost(s)
	if !ok {
		return p, "not a host"
	}
	if port != "" {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
			return p, "the port is not 1 to 65535"
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return p, "an address with a zone is of this machine only"
		}
		return hostPattern{host: addr.Unmap().String(), port: port}, ""
	}
	host = strings.ToLower(host)
	name := host
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		p.suffix, name = true, rest
		host = host[1:]
	}
	if what = checkHostName(name); what != "" {
		return p, what
	}
	p.host, p.port = host, port
	return p, ""
}

func checkHostName(name string) (what string) {
	if name == "" || len(name) > maxHostLen {
		return "not a host"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "a part between dots is empty or longer than 63 bytes"
		}
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		case c == '*':
			return "a star can only be the whole first part"
		case c >= 0x80:
			return "a name outside ASCII goes in its xn-- form"
		default:
			return "the character " + strconv.QuoteRune(rune(c)) + " is not of a host"
		}
	}
	return ""
}

// splitHost takes "host", "host:port", "[v6]", "[v6]:port" or a bare v6 apart. A dot at the end goes away.
func splitHost(s string) (host, port string, ok bool) {
	if len(s) > maxHostLen+8 {
		return "", "", false
	}
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false
		}
		host, s = s[1:end], s[end+1:]
		if s == "" {
			return host, "", host != ""
		}
		if s[0] != ':' {
			return "", "", false
		}
		return host, s[1:], host != ""
	}
	host = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.IndexByte(s, ':') == i {
		host, port = s[:i], s[i+1:]
	}
	host = strings.TrimSuffix(host, ".")
	return host, port, host != ""
}

// DependencyForHost returns the dependency whose hosts match host, which may carry a port. An entry with a port goes
// before one without, an exact one before "*.suffix", and the longest suffix wins. Case does not matter. It allocates
// nothing for a name of DNS.
func (c *Catalog) DependencyForHost(host string) (dependency string, ok bool) {
	c = c.orBuiltin()
	if c.hosts.exact == nil && c.hosts.suffix == nil {
		return "", false
	}
	name, port, ok := splitHost(host)
	if !ok || !isPort(port) {
		return "", false
	}
	var buf [maxHostLen + 8]byte
	if addr, isAddr := parseAddr(name); isAddr {
		return c.hosts.find(addr.WithZone("").String(), port)
	}
	if hasUpper(name) {
		return c.hosts.find(string(lower(buf[:0], name)), port)
	}
	return c.hosts.find(name, port)
}

// Internal reports whether wire data may go to host, which may carry a port, where the dependency is not declared:
// whether it matches the catalog's internal hosts or, without any, whether it is a name of one part, a name under
// .svc, .cluster.local or .internal, or a loopback or private address. An empty or unreadable host is not internal. It
// allocates nothing for lower-case names and addresses.
func (c *Catalog) Internal(host string) bool {
	c = c.orBuiltin()
	name, port, ok := splitHost(host)
	if !ok || !isPort(port) {
		return false
	}
	addr, isAddr := parseAddr(name)
	if !isAddr && hasUpper(name) {
		var buf [maxHostLen + 8]byte
		name = string(lower(buf[:0], name))
	}
	if c.InternalHosts == nil {
		if isAddr {
			return addr.IsLoopback() || addr.IsPrivate()
		}
		return isName(name) && (strings.IndexByte(name, '.') < 0 || strings.HasSuffix(name, ".svc") ||
			strings.HasSuffix(name, ".cluster.local") || strings.HasSuffix(name, ".internal"))
	}
	if isAddr {
		for _, n := range c.networks {
			if n.Contains(addr.WithZone("")) {
				return true
			}
		}
		name = addr.WithZone("").String()
	}
	_, ok = c.internal.find(name, port)
	return ok
}

// parseAddr reads an IP address; a v4 address in v6 clothes is a v4 address. Names are told apart first, because the
// parser's error would be allocated.
func parseAddr(host string) (netip.Addr, bool) {
	last := host[len(host)-1]
	if strings.IndexByte(host, ':') < 0 && (host[0] < '0' || host[0] > '9' || last < '0' || last > '9') {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(host)
	return addr.Unmap(), err == nil
}

// isName reports whether a lower-case host could be one of DNS; "fd00:" or "a b" is nothing that default rules trust.
// Nor is a name whose last part begins with a digit: "134744072" is a way to write 8.8.8.8 that some resolvers know.
func isName(host string) bool {
	for i := range len(host) {
		c := host[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return host[0] != '.' && last != "" && (last[0] < '0' || last[0] > '9')
}

// isPort reports whether a port could be one, by its number or its name; none is one, too. What follows a colon and is neither
// makes the whole host unreadable: nobody knows where such a request goes.
func isPort(port string) bool {
	for i := range len(port) {
		c := port[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func hasUpper(s string) bool {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return true
		}
	}
	return false
}

func lower(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
