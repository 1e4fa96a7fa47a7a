// Package incident plays the incident of Grab and Go: two services with two reasonable retry policies, one payment
// ledger that both depend on, and a fault of the ledger. It plays it twice, at the same time and under the same load:
// with the services' own policies, and with one profile that the catalog pins for both and one budget for each chain.
package incident
