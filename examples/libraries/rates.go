package libraries

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// A Client asks the rates service. It is what a library for a service looks like: it knows nothing of budgets or retries, and
// leaves both to the transport that it is given.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client of the rates service at base. A nil transport is http.DefaultTransport. There is no retry inside:
// what the transport does is all that is done.
func NewClient(base string, transport http.RoundTripper) *Client {
	return &Client{base: base, http: &http.Client{Transport: transport}} // no Timeout: it would span all attempts
}

// A StatusError is an answer of the service that is no success.
type StatusError struct {
	Response *http.Response // with its body read and closed
	Message  string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("rates: status %d: %s", e.Response.StatusCode, e.Message)
}

// Rate returns the rate of a currency.
func (c *Client) Rate(ctx context.Context, currency string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/rates/"+url.PathEscape(currency), nil)
	if err != nil {
		return 0, fmt.Errorf("rates: %w", err)
	}
	var rate float64
	return rate, c.do(req, &rate)
}

// Reserve books an amount at today's rate. One key is one booking, however often it is sent; make it where the decision to
// book is made.
func (c *Client) Reserve(ctx context.Context, key, currency string, amount int64) error {
	body := strings.NewReader(fmt.Sprintf(`{"currency":%q,"amount":%d}`, currency, amount)) // has GetBody, can be sent again
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/reservations", body)
	if err != nil {
		return fmt.Errorf("rates: %w", err)
	}
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%q", key))
	return c.do(req, nil)
}

func (c *Client) do(req *http.Request, result any) error {
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("rates: %w", err) // %w: whoever handles it may need what is inside
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("rates: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return &StatusError{Response: resp, Message: string(data)}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(data, result)
}
