package budgethttp_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if plan := os.Getenv(callerVariable); plan != "" {
		runCaller(plan)
		return
	}
	goleak.VerifyTestMain(m)
}
