package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// An outcome is what one run of one test showed.
type outcome int

const (
	passed      outcome = iota
	failed              // ran and did not pass: failed, panicked, crashed or timed out
	skipped             // ran and skipped itself
	missing             // the package compiles and has no such test
	notCompiled         // the package or its test does not compile
)

var outcomeNames = [...]string{"passes", "fails", "is skipped", "does not exist", "does not compile"}

func (o outcome) String() string { return outcomeNames[o] }

// An event is the part of a line of go test -json that matters here.
type event struct {
	Action, Test, Output string
}

// judge reads the output of go test -json for one test. A test that started and has neither passed nor skipped at the
// end failed, whatever ended it: a crash of the process ends it without a word.
func judge(output []byte, test string) outcome {
	started, result := false, missing
	for line := range bytes.Lines(output) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue // what the go command itself printed
		}
		switch {
		case e.Action == "build-fail":
			return notCompiled
		case e.Test != test:
		case e.Action == "run":
			started = true
		case e.Action == "pass":
			result = passed
		case e.Action == "skip":
			result = skipped
		}
	}
	if started && result == missing {
		return failed
	}
	return result
}

// printed returns the last lines that a run printed, for a reader who asks why.
func printed(output []byte, lines int) string {
	var text strings.Builder
	for line := range bytes.Lines(output) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			text.Write(line)
		} else {
			text.WriteString(e.Output)
		}
	}
	all := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
