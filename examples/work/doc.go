// Package work shows what a unit of work is where it is not a request: an event of a long response, a message of a stream, a
// record of a topic, a run of a cron job, what goes on after the response. Each begins a chain of its own. The page
// docs/units-of-work.md quotes it.
package work
