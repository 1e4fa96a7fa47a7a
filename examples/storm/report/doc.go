// Package report writes the numbers of the demo as one HTML file that needs no network: tables, and charts drawn by a
// copy of Apache ECharts that travels inside the file.
package report
