package budgetgrpc_test

import (
	"context"
	"database/sql"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// What a reader of the wiring below has already.
var (
	mux  *http.ServeMux
	addr string
	ctx  context.Context
	db   *sql.DB
)

// run is the wiring of the design contract, as it stands there.
func run() error {
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile("retry-catalog.yaml"))
	if err != nil {
		return err // or log it: sdk then works on its built-in catalog
	}
	defer sdk.Close()

	payments, err := sdk.Dependency("payments", profiles.WritePath)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: budgethttp.NewTransport(nil, payments)} // nil = http.DefaultTransport
	server := &http.Server{Addr: ":8080", Handler: budgethttp.NewHandler(mux, sdk, budgethttp.Entry())}

	conn, err := grpc.NewClient(addr, budgetgrpc.DialOptions(payments)...) // append your grpc.WithTransportCredentials(…), which gRPC demands
	if err != nil {
		return err
	}
	defer conn.Close()
	gs := grpc.NewServer(budgetgrpc.ServerOptions(sdk)...)

	ping := func(ctx context.Context) error { return db.PingContext(ctx) }
	if err := chainbudget.Do(ctx, payments, ping, chainbudget.Idempotent()); err != nil {
		return err
	}
	_, _ = client, gs // use them
	return server.ListenAndServe()
}

var _ = run

// A client with methods that may run twice, beside those whose definitions say so.
func ExampleDialOptions() {
	sdk, err := chainbudget.New("checkout")
	if err != nil {
		panic(err)
	}
	catalog, err := sdk.Dependency("catalog", profiles.ReadHeavy)
	if err != nil {
		panic(err)
	}
	options := budgetgrpc.DialOptions(catalog, budgetgrpc.Option{Idempotent: []string{"/shop.Catalog/Get*", "/shop.Catalog/List*"}})
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("catalog.internal:443", options...)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
}

// A server at which chains begin.
func ExampleServerOptions() {
	sdk, err := chainbudget.New("edge")
	if err != nil {
		panic(err)
	}
	gs := grpc.NewServer(budgetgrpc.ServerOptions(sdk, budgetgrpc.Option{Entry: true})...)
	defer gs.Stop()
}
