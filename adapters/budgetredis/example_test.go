package budgetredis_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/chainbudget/chainbudget-go/adapters/budgetredis"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// Nobody listens at this address: the service starts and works, on its own counts.
func ExampleShare() {
	sdk, err := chainbudget.New("checkout")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sdk.Close()

	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	view, err := budgetredis.Share(sdk, client)
	if err != nil {
		fmt.Println(err) // the process goes on with its own counts
	}
	defer view.Close()

	fmt.Println(view.Stats().Syncs, "syncs")
	// Output: 0 syncs
}
