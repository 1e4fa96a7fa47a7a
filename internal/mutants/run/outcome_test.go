package main

import (
	"testing"
)

func TestJudge(t *testing.T) {
	const (
		run  = `{"Action":"run","Package":"p","Test":"TestA"}` + "\n"
		pass = `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}` + "\n"
		fail = `{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0}` + "\n"
		skip = `{"Action":"skip","Package":"p","Test":"TestA","Elapsed":0}` + "\n"
		end  = `{"Action":"fail","Package":"p","Elapsed":0}` + "\n"
	)
	for name, tc := range map[string]struct {
		output string
		want   outcome
	}{
		"pass":             {run + pass, passed},
		"fail":             {run + fail + end, failed},
		"crash":            {run + end, failed},
		"skip":             {run + skip, skipped},
		"other_test":       {`{"Action":"run","Test":"TestB"}` + "\n" + `{"Action":"pass","Test":"TestB"}` + "\n", missing},
		"nothing":          {"", missing},
		"no_json":          {"go: no such tool\n", missing},
		"not_compiled":     {`{"ImportPath":"p","Action":"build-output","Output":"x"}` + "\n" + `{"ImportPath":"p","Action":"build-fail"}` + "\n" + end, notCompiled},
		"prefix_of_a_name": {`{"Action":"run","Test":"TestA/sub"}` + "\n" + `{"Action":"pass","Test":"TestA/sub"}` + "\n" + run + fail, failed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge([]byte(tc.output), "TestA"); got != tc.want {
				t.Errorf("judge = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPrinted(t *testing.T) {
	output := "plain\n" + `{"Action":"output","Output":"one\n"}` + "\n" + `{"Action":"output","Output":"two\n"}` + "\n"
	if got, want := printed([]byte(output), 10), "plain\none\ntwo"; got != want {
		t.Errorf("printed = %q, want %q", got, want)
	}
	if got, want := printed([]byte(output), 1), "two"; got != want {
		t.Errorf("printed = %q, want %q", got, want)
	}
}
