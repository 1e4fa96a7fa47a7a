package migrate

import (
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func connWithGRPCMiddleware(addr string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	retries := []retry.CallOption{
		retry.WithMax(3),
		retry.WithBackoff(retry.BackoffExponentialWithJitter(50*time.Millisecond, 0.1)),
	}
	options = append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(retries...)),
		grpc.WithChainStreamInterceptor(retry.StreamClientInterceptor(retries...)))
	return grpc.NewClient(addr, options...)
}

func connAfterGRPCMiddleware(addr string, sdk *chainbudget.SDK, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	catalog, err := sdk.Dependency("catalog", "catalog-reads")
	if err != nil {
		return nil, err
	}
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	options = append(options, budgetgrpc.DialOptions(catalog,
		budgetgrpc.Option{Idempotent: []string{"shop.Catalog/Get*", "shop.Catalog/List*"}})...)
	return grpc.NewClient(addr, options...)
}
