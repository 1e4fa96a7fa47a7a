// Command dashboards writes the Grafana dashboard over the SDK's metrics to a file. The rules and alerts that the dashboard
// uses are in the folder prometheus; they are written by hand.
//
//	go run . grafana/chainbudget.json # or make dashboards in the repository
package main
