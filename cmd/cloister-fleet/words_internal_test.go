package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/cmd/cloister/cli"
)

// A word that is wrong is refused before anything is read or sent.
func TestWords(t *testing.T) {
	home, two := t.TempDir(), filepath.Join(t.TempDir(), "two")
	if err := os.WriteFile(two, []byte("Bearer x\ny"), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"telemetry":                                            "want a URL of http or https",
		"telemetry --otlp ftp://127.0.0.1":                     "want a URL of http or https",
		"telemetry --otlp http://collector.test:4318":          "in the clear",
		"telemetry --otlp http://u:p@127.0.0.1:4318":           "want a URL of http or https",
		"telemetry --otlp https://c.test --header a=b=":        "no such file",
		"telemetry --otlp https://c.test --header a":           "want NAME=FILE",
		"telemetry --otlp https://c.test --header a=" + two:    "no header can have",
		"telemetry --otlp https://c.test --header a=/dev/null": "no header can have",
		"telemetry --otlp https://c.test --header a:b=" + two:  "no header can have",
		"telemetry --otlp https://c.test --ca /dev/null":       "holds no certificate",
		"ship":                                     "want a URL of https",
		"ship --bucket http://s3.test/records":     "in the clear",
		"ship --bucket https://s3.test":            "names no bucket",
		"ship --bucket https://s3.test/records":    "no credentials",
		"fetch --bucket https://s3.test/records x": "no credentials",
		"fetch":               "an argument is missing",
		"telemetry --nothing": "unknown flag",
	} {
		a := &cli.App{Stdout: os.Stdout, Stderr: os.Stderr, Out: bufio.NewWriter(io.Discard), Env: cli.Environ{"HOME": home}}
		root := newRoot(a)
		root.SetArgs(strings.Fields(words))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("it wrote %v, %v", left, err)
	}
}
