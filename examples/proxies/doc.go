// Package proxies shows, in its tests, chains whose hops have a real proxy between them: nginx, HAProxy and Caddy. The
// configurations are the blocks of docs/proxies.md, with the addresses of the test in them.
//
// What the tests hold, for each proxy as it is by default, told to retry, and told not to:
//
//  1. The header, the member and the return cross it, in HTTP and in gRPC; so does the user's baggage.
//  2. An answer that the proxy makes itself (502, 503, 504), or has in its cache, brings no return: the lease is lost and nothing
//     more.
//  3. What the proxy repeats is worth nothing on an instance that saw it before. On other instances it is worth what it was
//     worth on the first: the tree's retries stay within what was minted plus a grant for each instance.
//  4. With the configuration that turns its retries off, a proxy sends each attempt once.
//  5. What an Envoy's counter marks as repeated is worth nothing anywhere, and `mesh: envoy` puts its header on the wire. Envoy
//     itself is not run: a stand-in does what its documentation says.
//
// The tests start nginx and haproxy from the PATH and Caddy from the repository's .bin (make tools); they fail where
// one is missing.
package proxies
