module github.com/chainbudget/chainbudget-go/cmd/chainbudget

go 1.26.0

require (
	github.com/chainbudget/chainbudget-go v0.1.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/spf13/cobra v1.10.2
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/chainbudget/chainbudget-go => ../..
