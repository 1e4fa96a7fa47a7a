package watch

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // they wait, and hardly compute
	goleak.VerifyTestMain(m)
}
