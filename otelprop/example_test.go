package otelprop_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// A client adapter writes one attempt, on a clone of its caller's headers, and reads the return.
func ExampleRequest_AppendWire() {
	h := http.Header{"Baggage": {"user=1"}}
	sent := otelprop.Request{
		Grant: 2, Limit: 3, Hop: 1, Nonce: 0x9f86d081, Entry: "checkout",
		Caller: "checkout", Attempt: 1, Profile: "write-path", Digest: "1a2b3c4d", Timeout: 250 * time.Millisecond,
	}
	wire, memberLen := sent.AppendWire(nil)
	both := string(wire) // the only copy: member and header share it
	baggage, _ := otelprop.MergeBaggage(h[otelprop.HTTPBaggageHeader], both[:memberLen])
	h[otelprop.HTTPBaggageHeader] = []string{baggage}
	h[otelprop.HTTPRequestHeader] = []string{both[len(otelprop.MemberKey)+len("="):]}
	fmt.Println(h.Get("baggage"))
	fmt.Println(h.Get("chainbudget"))

	response := http.Header{"Chainbudget-Return": {"v1.1.1.u.9f86d081.-.ledger"}}
	ret, ok, _ := otelprop.ReadReturn(response[otelprop.HTTPReturnHeader], sent.Nonce, int(sent.Grant))
	fmt.Println(ok, ret.Returned, ret.Retries, ret.Claim, ret.Owner)
	// Output:
	// chainbudget=v1.2.3.1.9f86d081.checkout,user=1
	// v1.2.3.1.9f86d081.checkout;caller=checkout;attempt=1;profile=write-path@1a2b3c4d;timeout=250
	// true 1 1 unclaimed ledger
}

// A handler reads a request, takes what is ours out of it, and writes the return.
func ExampleReadRequest() {
	h := http.Header{
		"Baggage":     {"user=1,chainbudget=v1.2.3.1.9f86d081.checkout"},
		"Chainbudget": {"v1.2.3.1.9f86d081.checkout;caller=cart"},
	}
	in, _ := otelprop.ReadRequest(h[otelprop.HTTPBaggageHeader], h[otelprop.HTTPRequestHeader], 10)
	fmt.Println(in.State, in.Grant, in.Direct, in.Caller)

	delete(h, otelprop.HTTPRequestHeader)
	if kept, found := otelprop.StripBaggage(h[otelprop.HTTPBaggageHeader]); found {
		h[otelprop.HTTPBaggageHeader] = kept
	}
	fmt.Println(h)

	out := otelprop.Return{Returned: 2, Claim: ownership.ClaimClaimed, Nonce: in.Nonce, Leaf: true, Owner: "ledger"}
	fmt.Println(string(out.Append(nil)))
	// Output:
	// valid 2 true cart
	// map[Baggage:[user=1]]
	// v1.2.0.c.9f86d081.l.ledger
}
