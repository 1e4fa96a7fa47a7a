// Package engine is the mechanism behind package chainbudget: the purse, the call with its attempts, and the retry
// decision. Adapters drive it; users never see it. chainbudget's SDK and Dependency are defined types over this
// package's, so that an adapter converts a pointer and pays nothing.
//
// One inbound request has one [Inbound] (purse and tracker) in its context; one logical outbound call has one [Call],
// which belongs to one goroutine. An adapter makes the same steps for every call:
//
//	Begin · for each attempt: Admit, Lend, the request, Done · after a failure: Decide, Await, Backoff · Finish
package engine
