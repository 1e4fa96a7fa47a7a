package profiles_test

import (
	"fmt"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// What a change of the catalog comes to, for the remark of a CI job.
func ExampleDiff() {
	old, err := profiles.Load([]byte("version: 1\ndependencies: {payments: {profile: write-path}}\n"), "old.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	new, err := profiles.Load([]byte(`version: 1
profiles: {eager: {extends: write-path, budget: {fund: requests}}}
dependencies: {payments: {profile: eager}}
`), "new.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range profiles.Diff(old, new) {
		fmt.Printf("%s, %s: %s -> %s\n", change.Subject, change.Key, change.Old, change.New)
		for _, means := range change.Means {
			fmt.Println("  " + means)
		}
	}
	// Output:
	// dependency payments, profile: write-path -> eager
	// dependency payments, budget.fund: successes -> requests
	//   retries of each process in a full outage, breaker and floor aside: at most 10, so they end -> 10 % of requests, so they go on
	//   load that retries may add while most calls succeed: 10 % of successes -> 10 % of requests
	// profile eager, profile: none -> declared
	//   2 attempts a call at most; retries of each process in a full outage, breaker and floor aside: 10 % of requests, so they go on
}
