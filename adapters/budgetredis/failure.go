package budgetredis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
)

// The kinds of what can go wrong with a sync, as they are counted in [Stats].
const (
	failedTimeout    = "timeout"       // Redis or the way to it is slow, or stands still
	failedConnection = "connection"    // nobody answers there
	failedLoading    = "loading"       // Redis reads its data set after a start
	failedReadOnly   = "read_only"     // a replica answered
	failedAuth       = "auth"          // wrong password, or not allowed
	failedWrongType  = "wrong_type"    // somebody else's data is under our key
	failedMemory     = "out_of_memory" // Redis may not grow
	failedCluster    = "cluster"       // no node serves the slot
	failedBusy       = "busy"          // somebody's script does not end
	failedReply      = "reply"         // what came back was not from our script
	failedOther      = "other"
)

var errReply = errors.New("the reply is not one of our script")

// remedies say what to do about a failure that does not pass by itself.
var remedies = map[string]string{
	failedTimeout:    "look at Redis's latency and at what else it does, or sync less often",
	failedConnection: "check the address, and that Redis runs",
	failedLoading:    "nothing to do: Redis is starting",
	failedReadOnly:   "connect to the master, through Sentinel or as a cluster",
	failedAuth:       "check user and password, and that the user may run EVAL, EVALSHA and the commands that docs/fleet.md lists",
	failedWrongType:  "give the fleet a prefix of its own",
	failedMemory:     "give Redis more memory, or an eviction policy that may drop our keys",
	failedCluster:    "check that every slot has a node",
	failedBusy:       "find the script that does not end",
	failedReply:      "connect to Redis itself: something between answers in its place",
	failedOther:      "see the error",
}

// prefixes are how Redis's own errors begin.
var prefixes = []struct{ prefix, kind string }{
	{"LOADING", failedLoading}, {"READONLY", failedReadOnly},
	{"NOAUTH", failedAuth}, {"WRONGPASS", failedAuth}, {"NOPERM", failedAuth}, {"ERR invalid password", failedAuth},
	{"ERR AUTH", failedAuth}, {"ERR Protocol error: unauthenticated", failedAuth}, {"WRONGTYPE", failedWrongType}, {"ERR hash value is not an integer", failedWrongType},
	{"OOM", failedMemory}, {"CLUSTERDOWN", failedCluster}, {"MASTERDOWN", failedCluster}, {"TRYAGAIN", failedCluster},
	{"MOVED", failedCluster}, {"ASK", failedCluster}, {"BUSY", failedBusy},
	{"redis: can't parse", failedReply}, {"redis: the length", failedReply}, {"redis: invalid", failedReply},
}

// kindOf sorts an error.
func kindOf(err error) string {
	var timeout net.Error
	var operation *net.OpError
	switch {
	case errors.Is(err, errReply):
		return failedReply
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return failedTimeout
	case errors.As(err, &operation), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return failedConnection
	}
	text := err.Error()
	for _, p := range prefixes {
		// An error inside a script may come with the script's name before it.
		if strings.HasPrefix(text, p.prefix) || strings.Contains(text, ": "+p.prefix+" ") || strings.Contains(text, " -"+p.prefix+" ") {
			return p.kind
		}
	}
	return failedOther
}
