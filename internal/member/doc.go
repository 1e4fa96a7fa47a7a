// Package member is our member in the baggage of a context: adapters take it out as a request arrives, and put each
// attempt's own in where instrumentation below would write a baggage entry without it.
package member
