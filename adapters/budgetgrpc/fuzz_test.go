package budgetgrpc

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// FuzzLimits reads service configs: whatever it is, there are limits in range or an error of bounded length.
func FuzzLimits(f *testing.F) {
	f.Add(`{"methodConfig": [{"name": [{"service": "a", "method": "b"}, {}], "retryPolicy": {"maxAttempts": 3, "retryableStatusCodes": ["UNAVAILABLE", 13]}}]}`)
	f.Add(`{"methodConfig": [{"retryPolicy": null, "hedgingPolicy": 7}, null]}`)
	f.Add(`{"methodConfig": {}}`)
	f.Fuzz(func(t *testing.T, config string) {
		l, err := readLimits(config)
		if err != nil {
			if most := 500 * (1 + strings.Count(config, "{") + strings.Count(config, ",")); len(err.Error()) > most {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		for key, have := range l {
			if have.attempts < 2 || len(have.codes) == 0 {
				t.Errorf("%q: %+v", key, have)
			}
			if got, ok := l.of(key); !ok || got.attempts != have.attempts {
				t.Errorf("%q is not found by its own name", key)
			}
		}
		if len(l) > 0 && !json.Valid([]byte(config)) {
			t.Error("read from no JSON")
		}
	})
}

// FuzzAnswer reads trailers and status details of callees: nothing panics, and no hint is below 0.
func FuzzAnswer(f *testing.F) {
	detail, err := returnDetail("v1.1.1.c.9f86d081.-")
	if err != nil {
		f.Fatal(err)
	}
	p := &spb.Status{Code: 14, Message: "down"}
	p.Details = append(p.Details, detail, detail)
	b, err := proto.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, "100", "-1", 2)
	f.Add([]byte{0xff}, "", "9223372036854775807", 1)
	f.Fuzz(func(t *testing.T, details []byte, first, second string, n int) {
		p := new(spb.Status)
		if proto.Unmarshal(details, p) != nil {
			p = &spb.Status{Message: string(details)}
		}
		if hint, ok := retryInfo(p); hint < 0 || hint > 0 && !ok {
			t.Errorf("RetryInfo: %v, %v", hint, ok)
		}
		values := []string{first, second}[:max(0, min(n, 2))]
		hint, ok, never := rpc.Pushback(values)
		if hint < 0 || ok && never || never && hint != 0 || len(values) == 2 && !never || len(values) == 0 && (ok || never) {
			t.Errorf("pushback %q: %v, %v, %v", values, hint, ok, never)
		}
		lines := returnLines(p)
		otelprop.ReadReturn(lines, 0x9f86d081, 3)
		cleanedUp := cleaned(proto.Clone(p).(*spb.Status), true)
		if len(returnLines(cleanedUp)) != 0 {
			t.Error("a callee's return is still there")
		}
		if _, ok := retryInfo(cleanedUp); ok {
			t.Error("a callee's delay is still there")
		}
		r := reply{bare: cleanedUp, status: cleanedUp, line: "v1.1.1.c.9f86d081.-", never: true}
		r.addDetail()
		r.fit(metadata.MD{"a-bin": {first}, "b": {second}})
		if r.status.GetCode() != p.GetCode() || r.status.GetMessage() != p.GetMessage() {
			t.Error("code or message changed")
		}
		if utf8.ValidString(p.GetMessage()) && status.FromProto(r.status).Message() != p.GetMessage() {
			t.Error("the message does not survive")
		}
	})
}
