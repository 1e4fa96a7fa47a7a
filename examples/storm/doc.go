// Command storm shows what retries do to a failing service, with real HTTP servers on the loopback interface: a chain
// of services under six retry policies, and the incident of two services with one payment ledger, before and after.
//
//	go run ./storm                     # tables, and storm-report.html
//	go run ./storm -json > numbers.json
//	go run ./storm -fail F -depth 6    # another failing service, a deeper chain
//
// Every number comes from counters and records of the servers, none from a formula. It exits with 0, with 1 if
// something broke, with 2 for a flag that cannot be used, and with 130 after an interrupt, with what there was until
// then.
package main
