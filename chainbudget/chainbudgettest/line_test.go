package chainbudgettest

import "testing"

func TestLine_hasRequest(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	const settings = "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"
	const windowUpdate = "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x01\x01\x01\x01" // a payload that looks like a type
	const headers = "\x00\x00\x01\x01\x05\x00\x00\x00\x01"
	for sent, want := range map[string]bool{
		"":                                     false,
		"G":                                    true,
		"GET / HTTP/1.1\r\n":                   true,
		"P":                                    false, // POST, or the preface
		"PO":                                   true,
		preface:                                false,
		preface + settings:                     false,
		preface + settings + windowUpdate:      false,
		preface + settings[:12]:                false,
		preface + settings + headers[:8]:       false,
		preface + settings + headers:           true,
		preface + windowUpdate + headers + "x": true,
	} {
		if got := hasRequest([]byte(sent)); got != want {
			t.Errorf("%q: %t, want %t", sent, got, want)
		}
	}
}
