package budgetgrpc

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// FuzzMetadata sends metadata of any kind to a server: no input fails a request, nothing of ours gets through to the user's code
// (I6), everything else does, and a grant is at most the local maximum, 1 for a relay and 0 for what something has repeated (I4).
func FuzzMetadata(f *testing.F) {
	catalog, err := profiles.Load([]byte("version: 1\nchain: {budget: 3, max_budget: 4, orphan_budget: 1}\n"), "fuzz.yaml")
	if err != nil {
		f.Fatal(err)
	}
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{Service: "checkout", Catalog: catalog})
	f.Add("chainbudget=v1.2.3.1.9f86d081.checkout", "v1.2.3.1.9f86d081.checkout;timeout=250", "x-own", "1", false)
	f.Add("a=1,chainbudget=v1.9.9.1.9f86d081.checkout", "", "x-envoy-attempt-count", "2", true)
	f.Add("chainbudget=v1.9.9.1.9f86d081.checkout", "v1.9.9.1.9f86d082.checkout\nv1", "grpc-previous-rpc-attempts", "1", true)
	f.Add("", "", "Chainbudget", "v1.9.9.1.9f86d081.checkout", false)
	f.Add("", "", "BAGGAGE", "chainbudget=v1.9.9.1.9f86d081.checkout\n,", true)
	f.Fuzz(func(t *testing.T, baggage, header, key, values string, fails bool) {
		md := metadata.MD{key: strings.Split(values, "\n")}
		for name, text := range map[string]string{otelprop.BaggageHeader: baggage, otelprop.RequestHeader: header} {
			if text != "" {
				md[name] = strings.Split(text, "\n")
			}
		}
		before := md.Copy()
		wire, _ := otelprop.ReadRequest(md[otelprop.BaggageHeader], md[otelprop.RequestHeader], 4)
		called := false
		handle := func(ctx context.Context, _ any) (any, error) {
			called = true
			seen, _ := metadata.FromIncomingContext(ctx) // in lower case
			if len(seen[otelprop.RequestHeader]) > 0 || len(seen[otelprop.ReturnHeader]) > 0 || otelprop.HasMember(seen[otelprop.BaggageHeader]) {
				t.Errorf("I6: the user's code sees %q of %q", seen, md)
			}
			if lower := strings.ToLower(key); canonical(key) == key && !slices.Contains([]string{otelprop.RequestHeader, otelprop.ReturnHeader, otelprop.BaggageHeader}, lower) &&
				!slices.Equal(seen[lower], before[key]) {
				t.Errorf("%q is %q, was %q", key, seen[lower], before[key])
			}
			b := engine.FromContext(ctx).Balance()
			most := 4
			switch {
			case wire.State == otelprop.Unreadable:
				most = 0
			case wire.State == otelprop.Absent, !wire.Direct:
				most = 1
			}
			if b.Granted > most || b.Granted != b.Held {
				t.Errorf("%+v, want at most %d of %+v", b, most, wire)
			}
			if deadline, limited := ctx.Deadline(); limited && (wire.Timeout == 0 || time.Until(deadline) > wire.Timeout) {
				t.Errorf("a deadline in %v of %+v", time.Until(deadline), wire)
			}
			if fails {
				return nil, status.Error(codes.Unavailable, "down")
			}
			return "fine", nil
		}
		ctx := metadata.NewIncomingContext(context.Background(), md)
		_, err := UnaryServerInterceptor((*chainbudget.SDK)(sdk))(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/shop.Catalog/Get"}, handle)
		if !called || (status.Code(err) == codes.Unavailable) != fails || (err == nil) == fails {
			t.Fatalf("called %t, %v", called, err)
		}
		for name, want := range before {
			if !slices.Equal(md[name], want) {
				t.Fatalf("%q of what gRPC holds is %q, was %q", name, md[name], want)
			}
		}
	})
}
