package budgetredis

import (
	"context"
	_ "embed"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

//go:embed script.lua
var scriptText string

var script = redis.NewScript(scriptText)

// store is Redis, as the view uses it.
type store struct {
	client redis.UniversalClient
	own    bool
	limit  time.Duration
	probe  func(context.Context) error // asks whether there is somebody to connect to; nil = do not ask
	down   bool                        // the last round trip did not come about

	life  context.Context // ends with the store, and every dial with it
	end   context.CancelFunc
	mu    sync.Mutex // guards ended
	ended bool
	dials sync.WaitGroup
}

// call is one run of the script.
type call struct {
	keys  []string
	args  []any
	reply []any
	err   error
}

// newStore makes a client of our own from the options of the caller's. What the caller set for requests does not fit:
// retries and long timeouts would let one sync take many intervals, a limiter would count our failures among theirs, and
// in a pool of theirs we would wait for each other.
func newStore(client redis.UniversalClient, limit time.Duration) *store {
	s := &store{own: true, limit: limit}
	s.life, s.end = context.WithCancel(context.Background())
	switch c := client.(type) {
	case *redis.Client:
		o := *c.Options()
		dialer := o.Dialer
		o.Dialer = s.dialer(dialer)
		o.MaxRetries, o.DialerRetries = -1, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = limit, limit, limit, limit
		o.ContextTimeoutEnabled = true
		o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = poolSize, 0, 1, 0
		o.MaxConcurrentDials, o.PipelinePoolSize = 1, 0
		o.Limiter = nil
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		o.ClientSideCacheConfig, o.ClientSideCache = nil, nil
		s.client = redis.NewClient(&o)
		s.probe = func(ctx context.Context) error {
			conn, err := dialer(ctx, o.Network, o.Addr)
			if err == nil {
				err = conn.Close()
			}
			return err
		}
	case *redis.ClusterClient:
		o := *c.Options()
		o.Dialer = s.dialer(o.Dialer)
		o.MaxRetries, o.DialerRetries = -1, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = limit, limit, limit, limit
		o.ContextTimeoutEnabled = true
		o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = poolSize, 0, 1, 0
		o.MaxConcurrentDials, o.PipelinePoolSize = 1, 0
		o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		s.client = redis.NewClusterClient(&o)
	case *redis.Ring:
		o := *c.Options()
		o.Dialer = s.dialer(o.Dialer)
		o.MaxRetries, o.DialerRetries = -1, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = limit, limit, limit, limit
		o.ContextTimeoutEnabled = true
		o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = poolSize, 0, 1, 0
		o.Limiter = nil
		s.client = redis.NewRing(&o)
	default:
		s.client, s.own = client, false
	}
	return s
}

// poolSize is not how many connections there are, which is one. go-redis, after so many failed dials, leaves dialing to a
// goroutine that outlives the client.
const poolSize = 1024

// dialer makes dials end with the store.
func (s *store) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil { // a cluster's nodes and a ring's shards get theirs later
		d := &net.Dialer{Timeout: s.limit}
		dial = d.DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.mu.Lock()
		ended := s.ended
		if !ended {
			s.dials.Add(1)
		}
		s.mu.Unlock()
		if ended {
			return nil, net.ErrClosed
		}
		defer s.dials.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		return dial(ctx, network, addr)
	}
}

// run runs the script for all calls in one round trip, two after Redis has forgotten the script.
func (s *store) run(ctx context.Context, calls []call) {
	if s.down && s.probe != nil {
		// go-redis logs every dial of its own that fails.
		if err := s.probe(ctx); err != nil {
			for i := range calls {
				calls[i].err = err
			}
			return
		}
	}
	all := make([]*call, len(calls))
	for i := range calls {
		all[i] = &calls[i]
	}
	s.pipe(ctx, all, script.EvalSha)
	var again []*call
	s.down = false
	for _, c := range all {
		switch {
		case c.err == nil:
		case redis.HasErrorPrefix(c.err, "NOSCRIPT"):
			again = append(again, c)
		case kindOf(c.err) == failedConnection, kindOf(c.err) == failedTimeout:
			s.down = true
		}
	}
	if len(again) > 0 {
		s.pipe(ctx, again, script.Eval)
	}
}

func (s *store) pipe(ctx context.Context, calls []*call, eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) {
	p := s.client.Pipeline()
	commands := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		commands[i] = eval(ctx, p, c.keys, c.args...)
	}
	_, execErr := p.Exec(ctx)
	for i, c := range calls {
		c.reply, c.err = commands[i].Slice()
		if c.err != nil && commands[i].Err() == nil {
			c.err = errReply
			if execErr != nil {
				c.err = execErr
			}
		}
	}
}

// close ends what the store began. A client that is the caller's stays open.
func (s *store) close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end()
	if s.own {
		_ = s.client.Close() // nothing is left to save
	}
	s.dials.Wait()
}
