package chainbudgettest_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
)

// A chain of three hops, of which the last fails once, and whose first answer comes without its return: what is retried
// where, and where the tokens go.
func ExampleChain() {
	chain := chainbudgettest.Chain{
		Handler:   func(next http.Handler, sdk *chainbudget.SDK) http.Handler { return budgethttp.NewHandler(next, sdk) },
		Transport: budgethttp.NewTransport,
		Depth:     3,
		Faults: []chainbudgettest.Fault{
			{Hop: 3, Kind: chainbudgettest.Fails, Times: 1},
			{Hop: 1, Kind: chainbudgettest.Silent, Times: 1},
		},
	}
	outcome, err := chain.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(outcome)
	fmt.Println(outcome.Retries, "retry,", outcome.Lost, "token lost")
	fmt.Print(outcome.Expect(chainbudgettest.Want{Status: 200, Attempts: []int{1, 1, 1}}))
	// Output:
	// request 1: 200, 3 tokens minted, 1 held at the end
	// └─ hop1 attempt 1: lent 2, 200, no return (silent)
	//    └─ hop2 attempt 1: lent 2, 200, returned 1
	//       ├─ hop3 attempt 1: lent 2, 503, returned 2, claimed, owner hop3 (fails)
	//       └─ hop3 attempt 2: lent 1, 200, returned 1
	// 1 retry, 1 token lost
	// chainbudgettest: attempts by hop: [1 1 2], want [1 1 1]
	// request 1: 200, 3 tokens minted, 1 held at the end
	// └─ hop1 attempt 1: lent 2, 200, no return (silent)
	//    └─ hop2 attempt 1: lent 2, 200, returned 1
	//       ├─ hop3 attempt 1: lent 2, 503, returned 2, claimed, owner hop3 (fails)
	//       └─ hop3 attempt 2: lent 1, 200, returned 1
}
