// Command watch plays the incident of Grab and Go over and over before the eyes of a real Prometheus, which it starts with
// the rules and alerts of the folder dashboards, and prints where to look.
//
//	go run ./storm/watch # or make watch in the repository
//
// Before and after run at the same time, as two environments. After, the services have the SDK with the catalog of the
// incident. Before, each keeps its own policy and has the SDK below it, in observe: that is what a fleet sees on the day
// before it changes anything. An interrupt ends it, with exit code 0.
package main
