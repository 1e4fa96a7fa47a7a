package migrate

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

const serviceConfig = `{"methodConfig": [{
	"name": [{"service": "shop.Catalog"}],
	"retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "0.05s", "maxBackoff": "5s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["UNAVAILABLE"]
	}
}]}`

func connWithServiceConfig(addr string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	options = append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig))
	return grpc.NewClient(addr, options...)
}

func connAfterServiceConfig(addr string, sdk *chainbudget.SDK, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	catalog, err := sdk.Dependency("catalog", "catalog-reads")
	if err != nil {
		return nil, err
	}
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	options = append(options, budgetgrpc.DialOptions(catalog, budgetgrpc.Option{
		Idempotent:    []string{"shop.Catalog/Get*", "shop.Catalog/List*"},
		ServiceConfig: serviceConfig, // may stay while both are in use: it only lowers what the profile allows
	})...)
	return grpc.NewClient(addr, options...)
}
