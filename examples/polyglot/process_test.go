package polyglot

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// have reports whether a language can be run here. What is missing fails the test where the environment demands all.
func have(t *testing.T, what, install string, there func() bool) bool {
	t.Helper()
	if there() {
		return true
	}
	if os.Getenv("CHAINBUDGET_LANGUAGES") == "required" {
		t.Fatalf("%s is missing, and CHAINBUDGET_LANGUAGES=required. %s", what, install)
	}
	fmt.Fprintf(os.Stderr, "\n*** %s DID NOT RUN: %s is missing. %s ***\n\n", t.Name(), what, install)
	return false
}

func haveProgram(t *testing.T, name string) bool {
	t.Helper()
	install := map[string]string{"node": "Install it: apt-get install nodejs npm, or brew install node.", "python3": "Install it: apt-get install python3, or brew install python3."}
	return have(t, name, install[name], func() bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
}

// listen starts a service in another language, which prints "listening on PORT" first, and returns its URL.
func listen(t *testing.T, folder string, environment []string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), environment...)
	said := new(strings.Builder)
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A process that does not come up is ended, which ends the reading below.
	slow := time.AfterFunc(60*time.Second, func() { _ = cmd.Process.Kill() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	inTime := slow.Stop()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed; there is nothing to learn from its status
		if t.Failed() {
			t.Logf("%v said:\n%s", command, said)
		}
	})
	var port int
	if _, err := fmt.Sscanf(line, "listening on %d", &port); err != nil || !inTime {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("%v does not listen; it printed %q and\n%s", command, line, said)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}
