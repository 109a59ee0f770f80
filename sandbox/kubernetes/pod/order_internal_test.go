package pod

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOrder: what is read is what was written, in lines that a terminal takes, and what follows is left.
func TestOrder(t *testing.T) {
	for _, r := range []Run{{}, {ID: "me", Argv: []string{"sh", "-c", "echo \x00\n"}, Env: []string{"A=" + strings.Repeat("x", 100_000)}, Dir: "/w",
		Processes: 7, Columns: 97, Rows: 31}, {ID: "me", Argv: []string{"cat", "caf\xe9", `"caf\xe9"`}, Env: []string{"A=\xff"}}} {
		text, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if len(line) > lineOf+1 || line[len(line)-1] != '\n' {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
		in := bytes.NewReader(append(text, "typed"...))
		got, err := read(in)
		if err != nil || in.Len() != len("typed") {
			t.Errorf("%v, and %d bytes are left", err, in.Len())
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := (Run{Env: []string{strings.Repeat("x", maxText)}}).Text(); err == nil {
		t.Error("one that is longer than any kernel takes is written")
	}
	for _, bad := range []string{"", "1", "00000004\n", "99999999\n", "-0000004\nnull", "000000040null", "00000001\n!"} {
		if r, err := read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, r)
		}
	}
}

func FuzzOrder(f *testing.F) {
	text, err := Run{ID: "me", Argv: []string{"true"}}.Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := read(bytes.NewReader(text)); err == nil {
			if _, err := r.Text(); err != nil {
				t.Errorf("%+v is read, and is not written: %v", r, err)
			}
		}
	})
}
