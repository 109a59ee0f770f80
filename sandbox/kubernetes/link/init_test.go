package link_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"cloister/sandbox/kubernetes/link"
)

// pod is a first process that answers what it likes.
type pod struct {
	io.Reader
	io.Writer
}

// TestHostileFirst: whatever a pod answers ends, as an error, and without memory that grows with what it says.
func TestHostileFirst(t *testing.T) {
	var body bytes.Buffer
	b := link.Body{W: &body}
	if _, err := b.Write([]byte("archive")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	whole := "{}\n" + body.String()
	for name, says := range map[string]string{
		"nothing":             "",
		"no JSON":             "x\n",
		"an error":            `{"error":"disk full"}` + "\n",
		"a line without end":  strings.Repeat("x", 2<<20),
		"no body":             "{}\n",
		"half a frame":        "{}\n\x00\x00\x00\x09arch",
		"a frame too long":    "{}\n\xff\xff\xff\xffarch",
		"no word at its end":  whole,
		"an error at its end": whole + `{"error":"cut"}` + "\n",
	} {
		_, err := link.NewFirst(pod{strings.NewReader(says), io.Discard}).Pack(func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
		if err == nil {
			t.Errorf("%s: taken for well", name)
		}
	}
	refused := errors.New("refused")
	_, err := link.NewFirst(pod{strings.NewReader(whole + "{}\n"), io.Discard}).Pack(func(io.Reader) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("what was refused here: %v", err)
	}
	came, err := link.NewFirst(pod{strings.NewReader(whole + "{}\n"), io.Discard}).Pack(func(r io.Reader) error {
		if text, err := io.ReadAll(r); err != nil || string(text) != "archive" {
			t.Errorf("%q, %v", text, err)
		}
		return nil
	})
	if err != nil || !came {
		t.Errorf("%v, %v", came, err)
	}
}
