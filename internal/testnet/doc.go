// Package testnet is a network in memory, between http.RoundTripper and http.Handler, on which everything can go wrong.
//
//	network := testnet.New(func(req *http.Request) testnet.Fault {
//		return testnet.Fault{Kind: testnet.Lose, After: 20 * time.Millisecond}
//	})
//	defer network.Close()
//	network.Handle("payments", budgethttp.NewHandler(mux, sdk))
//	transport := budgethttp.NewTransport(network, payments) // GET http://payments/...
//
// What holds on it:
//
//  1. Requests and responses cross as text: the start line and the header are written out and parsed again by net/http,
//     bodies are copied. Nothing is shared by pointer, and nothing crosses that real HTTP would not carry.
//  2. A handler runs on a goroutine of its own. Its context has no value of the client's, and is canceled when the client
//     gives up (at once, later or never: [Fault].Notice), when the handler returns, and by [Network.Close].
//  3. A response leaves when its handler returns; there is no streaming, no informational response and no trailer. A
//     handler that panics is a connection that breaks.
//  4. The plan is asked once for each request, on the client's goroutine, before anything is sent. It answers with a
//     [Fault]; the zero Fault delivers. A nil plan delivers everything at once. A plan that draws from one seeded source
//     under a lock makes a sequential run repeat exactly; one that hashes a seed with what names the request (a header,
//     the path) does so for concurrent runs.
//  5. The client sees the errors that net/http's transport would give: a *net.OpError with Op "dial" for a refused
//     connection (the request provably never left), a *net.OpError with Op "read" around ECONNRESET for one that broke,
//     io.EOF for one that was closed instead of an answer, and the cause of its own context when that ends first.
//
// It uses nothing but package time, channels and goroutines, so it also runs in a testing/synctest bubble, in virtual
// time; make the Network inside the bubble. A Network may be used by many goroutines at once. Hooks of net/http/httptrace
// are not called: there are no connections.
package testnet
