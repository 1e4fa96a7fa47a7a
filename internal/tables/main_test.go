package tables

import (
	"os"
	"runtime/debug"
	"testing"
)

// The samples make much garbage around a live heap of a few megabytes. With the usual setting a third of the time would
// be spent on collecting it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}
