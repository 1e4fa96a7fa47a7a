package budgetgrpc

import (
	"strings"

	"google.golang.org/grpc"
)

// target is the host that a connection leads to, for the question whether it is outside.
type target struct {
	cc   *grpc.ClientConn
	host string
}

// host returns the host of a connection, with its port if it has one.
func (c *client) host(cc *grpc.ClientConn) string {
	if cc == nil {
		return local // within the process
	}
	if t := c.target.Load(); t != nil && t.cc == cc {
		return t.host
	}
	t := &target{cc: cc, host: hostOf(cc.CanonicalTarget())}
	c.target.Store(t)
	return t.host
}

// local stands for what does not leave the machine.
const local = "localhost"

// hostOf returns the host in a target such as "dns:///payments.internal:443" or "unix:///run/payments.sock".
func hostOf(canonical string) string {
	scheme, rest, found := strings.Cut(canonical, ":")
	if !found {
		return canonical
	}
	if scheme == "unix" || scheme == "unix-abstract" {
		return local
	}
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		_, rest, _ = strings.Cut(authority, "/") // the authority is the name server
	}
	host, _, _ := strings.Cut(rest, "/") // xds and others name more than a host
	host, _, _ = strings.Cut(host, ",")
	return host
}
