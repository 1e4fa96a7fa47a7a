package budgetgrpc_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const kept = rpctest.Catalog + "  kept: {extends: test, retry: {reserve: 9}}\n" // lends nothing: foreign callees send nothing back

// TestRegression_A074_a_service_config_lowers_what_the_profile_allows
func TestRegression_A074_a_service_config_lowers_what_the_profile_allows(t *testing.T) {
	policy := func(name, attempts, list string) string {
		return `{"methodConfig": [{"name": [` + name + `], "retryPolicy": {"maxAttempts": ` + attempts + `, "initialBackoff": "0.1s", "maxBackoff": "1s",
			"backoffMultiplier": 2, "retryableStatusCodes": [` + list + `]}}], "loadBalancingConfig": [{"round_robin": {}}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`
	}
	for name, c := range map[string]struct {
		config string
		calls  int64
	}{
		"none":                  {"", 4},
		"two":                   {policy(`{}`, "2", `"UNAVAILABLE"`), 2},
		"three_for_the_service": {policy(`{"service": "test.Chain"}`, "3", `"UNAVAILABLE"`), 3},
		"two_for_the_method":    {policy(`{"service": "test.Chain", "method": "Call"}`, "2", `14`), 2},
		"another_method":        {policy(`{"service": "test.Chain", "method": "List"}`, "2", `"UNAVAILABLE"`), 4},
		"another_code":          {policy(`{}`, "4", `"INTERNAL", "ABORTED"`), 1},
		"more_than_the_profile": {policy(`{}`, "9", `"UNAVAILABLE", "INTERNAL"`), 4},
		"no_policy":             {`{"methodConfig": [{"name": [{}], "timeout": "10s"}]}`, 4},
		"the_method_wins": {strings.Replace(policy(`{"service": "test.Chain", "method": "Call"}`, "2", `"UNAVAILABLE"`), `"methodConfig": [`,
			`"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "retryableStatusCodes": ["UNAVAILABLE"]}}, `, 1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(kept))
			conn := dial(t, serve(t, unavailable(&calls)), budgetgrpc.DialOptions(rec.Dependency("callee", "kept"), every, budgetgrpc.Option{ServiceConfig: c.config})...)
			assert.Equal(t, codes.Unavailable, status.Code(ask(rpctest.Begin(t, rec), conn)))
			assert.Equal(t, c.calls, calls.Load(), "%v", rec.Reasons())
		})
	}
}

// TestRegression_A074_what_cannot_be_read_is_refused, whole, with what is wrong, where, and how to mend it.
func TestRegression_A074_what_cannot_be_read_is_refused(t *testing.T) {
	for name, c := range map[string]struct {
		option budgetgrpc.Option
		says   []string
	}{
		"no_json":       {budgetgrpc.Option{ServiceConfig: "{"}, []string{"ServiceConfig: no service config", "give the JSON"}},
		"wrong_case":    {policyOption(`"MaxAttempts": 3, "retryableStatusCodes": ["UNAVAILABLE"]`), []string{"methodConfig[0].retryPolicy.MaxAttempts: unknown key"}},
		"one_attempt":   {policyOption(`"maxAttempts": 1, "retryableStatusCodes": ["UNAVAILABLE"]`), []string{"maxAttempts: 1: write 2 or more"}},
		"no_attempts":   {policyOption(`"retryableStatusCodes": ["UNAVAILABLE"]`), []string{"maxAttempts: 0: write 2 or more"}},
		"many":          {policyOption(`"maxAttempts": 2.5, "retryableStatusCodes": ["UNAVAILABLE"]`), []string{"maxAttempts: 2.5 is no whole number"}},
		"text":          {policyOption(`"maxAttempts": "3", "retryableStatusCodes": ["UNAVAILABLE"]`), []string{`maxAttempts: "3" is no whole number`}},
		"no_codes":      {policyOption(`"maxAttempts": 3`), []string{"retryableStatusCodes: empty"}},
		"unknown_code":  {policyOption(`"maxAttempts": 3, "retryableStatusCodes": ["UNAVAILABEL", null, 99]`), []string{`"UNAVAILABEL" is no code`, "null is no code", "99 is no code"}},
		"hedging":       {budgetgrpc.Option{ServiceConfig: `{"methodConfig": [{"name": [{}], "hedgingPolicy": {}}]}`}, []string{"methodConfig[0].hedgingPolicy: not read: set hedge in the profile"}},
		"no_name":       {budgetgrpc.Option{ServiceConfig: `{"methodConfig": [{"retryPolicy": {"maxAttempts": 2, "retryableStatusCodes": [14]}}]}`}, []string{"name: missing"}},
		"no_service":    {budgetgrpc.Option{ServiceConfig: `{"methodConfig": [{"name": [{"method": "Call"}], "retryPolicy": {"maxAttempts": 2, "retryableStatusCodes": [14]}}]}`}, []string{`method "Call" without a service`}},
		"named_twice":   {budgetgrpc.Option{ServiceConfig: `{"methodConfig": [{"name": [{}, {}], "retryPolicy": {"maxAttempts": 2, "retryableStatusCodes": [14]}}]}`}, []string{"named twice"}},
		"no_pattern":    {budgetgrpc.Option{Idempotent: []string{"/test.Chain/[", ""}}, []string{`"test.Chain/[" in Idempotent is no pattern`, `"" in Idempotent is no pattern`}},
		"several_at_it": {budgetgrpc.Option{Idempotent: []string{"["}, ServiceConfig: "{"}, []string{"is no pattern", "no service config"}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(kept)) // strict
			_, err := grpc.NewClient("passthrough:///x", append(budgetgrpc.DialOptions(rec.Dependency("callee", "kept"), c.option), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
			require.Error(t, err)
			for _, says := range c.says {
				assert.Contains(t, strings.ReplaceAll(strings.ReplaceAll(err.Error(), `\\\"`, `"`), `\"`, `"`), says)
			}

			var log bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)
			sdk, err := chainbudget.New("caller")
			require.NoError(t, err)
			dep, err := sdk.Dependency("callee", profiles.ReadHeavy)
			require.NoError(t, err)
			var calls atomic.Int64
			for range 2 {
				conn := dial(t, serve(t, answers(&calls)), budgetgrpc.DialOptions(dep, c.option)...)
				assert.NoError(t, ask(t.Context(), conn), "the profile alone decides")
				conn = dial(t, serve(t, answers(&calls)), grpc.WithUnaryInterceptor(budgetgrpc.UnaryClientInterceptor(dep, c.option)))
				assert.NoError(t, ask(t.Context(), conn))
			}
			assert.Equal(t, 1, strings.Count(log.String(), "cannot be read and is left out"), "%s", &log)
			for _, says := range c.says {
				assert.Contains(t, strings.ReplaceAll(strings.ReplaceAll(log.String(), `\\\"`, `"`), `\"`, `"`), says)
			}
			require.NoError(t, sdk.Close())
		})
	}
}

func policyOption(policy string) budgetgrpc.Option {
	return budgetgrpc.Option{ServiceConfig: `{"methodConfig": [{"name": [{}], "retryPolicy": {` + policy + `}}]}`}
}

// TestRegression_a_retryPolicy_that_is_off_is_told_once
func TestRegression_a_retryPolicy_that_is_off_is_told_once(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	sdk, err := chainbudget.New("caller")
	require.NoError(t, err)
	dep, err := sdk.Dependency("callee", profiles.ReadHeavy)
	require.NoError(t, err)
	conn := dial(t, serve(t, &handlers{}), append(budgetgrpc.DialOptions(dep), grpc.WithDefaultServiceConfig(policy4))...)
	for range 5 {
		require.NoError(t, ask(t.Context(), conn))
	}
	assert.Equal(t, 1, strings.Count(log.String(), "retryPolicy"), "%s", &log)
	require.NoError(t, sdk.Close())
}

// TestRegression_a_methods_own_definition_says_whether_it_may_run_twice
func TestRegression_a_methods_own_definition_says_whether_it_may_run_twice(t *testing.T) {
	level := func(l descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodOptions {
		return &descriptorpb.MethodOptions{IdempotencyLevel: l.Enum()}
	}
	method := func(name string, o *descriptorpb.MethodOptions) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: proto.String(name), InputType: proto.String(".declared.M"), OutputType: proto.String(".declared.M"), Options: o}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("declared.proto"), Package: proto.String("declared"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Get", level(descriptorpb.MethodOptions_NO_SIDE_EFFECTS)), method("Put", level(descriptorpb.MethodOptions_IDEMPOTENT)),
			method("Add", level(descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN)), method("Pay", nil),
		}}},
	}, nil)
	require.NoError(t, err)
	if _, err := protoregistry.GlobalFiles.FindFileByPath(file.Path()); err != nil { // else it is there from the run before (-count)
		require.NoError(t, protoregistry.GlobalFiles.RegisterFile(file))
	}
	for name, want := range map[string]int64{"Shop/Get": 4, "Shop/Put": 4, "Shop/Add": 1, "Shop/Pay": 1, "M/Get": 1, "Shop/None": 1, "Shop/Get/x": 1} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			addr := serve(t, &handlers{}, grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
				calls.Add(1)
				return down
			}))
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(kept))
			conn := dial(t, addr, budgetgrpc.DialOptions(rec.Dependency("callee", "kept"))...)
			assert.Equal(t, codes.Unavailable, status.Code(conn.Invoke(rpctest.Begin(t, rec), "/declared."+name, say("x"), new(text))))
			assert.Equal(t, want, calls.Load())
		})
	}
}
