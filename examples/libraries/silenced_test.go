package libraries

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithy "github.com/aws/smithy-go/middleware"
	"github.com/redis/go-redis/v9"
	"github.com/stripe/stripe-go/v85"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/examples/page"
	"github.com/chainbudget/chainbudget-go/profiles"
)

var refused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// TestHiddenRetriesAreCounted fills the page's table: what one call of a library comes to at a server that is down, as the
// library is and with the page's lines, which leave all retries to a profile of one attempt.
func TestHiddenRetriesAreCounted(t *testing.T) {
	var rows []page.Row
	for _, library := range []struct {
		what          string
		before, after func(t *testing.T) int
	}{
		{"go-redis, `GET`, connection refused: dials", func(t *testing.T) int {
			return redisDials(func(o redis.Options) error {
				client := redis.NewClient(&o)
				defer client.Close()
				return client.Get(t.Context(), "key").Err()
			})
		}, func(t *testing.T) int {
			dep := chainbudgettest.New(t).Dependency("cache", profiles.NoRetry)
			return redisDials(func(o redis.Options) error {
				client := redisWithoutRetries(o)
				defer client.Close()
				_, err := redisGet(t.Context(), dep, client, "key")
				return err
			})
		}},
		{"AWS SDK v2, throttled: attempts", func(t *testing.T) int {
			return awsAttempts(t, retry.NewStandard())
		}, func(t *testing.T) int {
			dep := chainbudgettest.New(t).Dependency("aws", profiles.NoRetry)
			return awsAttempts(t, awsWithoutRetries(aws.Config{}, dep).Retryer())
		}},
		{"stripe-go, always 503: attempts", func(t *testing.T) int {
			down := &answers{status: http.StatusServiceUnavailable}
			stripeCharge(t, stripe.NewClient("key", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
				HTTPClient: &http.Client{Transport: down}, LeveledLogger: &stripe.LeveledLogger{},
			}))))
			return down.attempts
		}, func(t *testing.T) int {
			down := &answers{status: http.StatusServiceUnavailable}
			stripeCharge(t, stripeWithoutRetries("key", down, chainbudgettest.New(t).Dependency("stripe", profiles.NoRetry)))
			return down.attempts
		}},
		{"database/sql, the connection is bad: statements sent", func(t *testing.T) int {
			return sqlStatements(func(db *sql.DB) { _, _ = db.ExecContext(t.Context(), "UPDATE stock SET n = 1") })
		}, func(t *testing.T) int {
			dep := chainbudgettest.New(t).Dependency("stock", profiles.NoRetry)
			return sqlStatements(func(db *sql.DB) { _ = sqlWithoutRetries(t.Context(), db, dep, "UPDATE stock SET n = 1") })
		}},
	} {
		var before, after int
		synctest.Test(t, func(t *testing.T) { before = library.before(t) })
		synctest.Test(t, func(t *testing.T) { after = library.after(t) })
		rows = append(rows, page.Row{What: library.what, Before: fmt.Sprint(before), After: fmt.Sprint(after)})
	}
	page.Read(t, "../../docs/libraries.md").Compare(t, rows)
}

func redisDials(get func(redis.Options) error) (dials int) {
	err := get(redis.Options{Addr: "10.0.0.7:6379", Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, refused
	}})
	if err == nil {
		return -1 // a refused connection gave a value
	}
	return dials
}

// throttled is how a service of AWS says so.
type throttled struct{}

func (throttled) Error() string     { return "slow down" }
func (throttled) ErrorCode() string { return "ThrottlingException" }

// awsAttempts counts what the step does that every client of AWS' SDK puts around an operation.
func awsAttempts(t *testing.T, retryer aws.Retryer) (attempts int) {
	step := retry.NewAttemptMiddleware(retryer, func(v any) any { return v })
	_, _, err := step.HandleFinalize(t.Context(), smithy.FinalizeInput{}, smithy.FinalizeHandlerFunc(
		func(context.Context, smithy.FinalizeInput) (out smithy.FinalizeOutput, meta smithy.Metadata, err error) {
			attempts++
			return out, meta, throttled{}
		}))
	if err == nil {
		t.Error("a throttled operation succeeded")
	}
	return attempts
}

func stripeCharge(t *testing.T, client *stripe.Client) {
	if _, err := client.V1Customers.Retrieve(t.Context(), "cus_7", nil); err == nil {
		t.Error("a server that is down gave a customer")
	}
}

func sqlStatements(run func(*sql.DB)) int {
	c := new(badConnector)
	db := sql.OpenDB(c)
	defer db.Close()
	run(db)
	return c.statements
}

// A badConnector makes connections that turn out to be bad with the first statement.
type badConnector struct{ statements int }

func (c *badConnector) Connect(context.Context) (driver.Conn, error) { return badConn{c}, nil }
func (c *badConnector) Driver() driver.Driver                        { return nil }

type badConn struct{ *badConnector }

func (badConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrBadConn }
func (badConn) Begin() (driver.Tx, error)           { return nil, driver.ErrBadConn }
func (badConn) Close() error                        { return nil }

// ExecContext implements [driver.ExecerContext].
func (c badConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	c.statements++
	return nil, driver.ErrBadConn
}
