package pod_test

import (
	"bytes"
	"strings"
	"testing"

	"cloister/sandbox/kubernetes/pod"
)

func TestEnd(t *testing.T) {
	for _, tt := range []struct {
		in, out string
		code    int
		come    bool
	}{
		{"", "", -1, false},
		{"words\n", "words\n", -1, false},
		{"words\n\x00cloister-end me 7\n", "words\n", 7, true},
		{"\x00cloister-end me 255\nerror: of kubectl\n", "error: of kubectl\n", 255, true},
		{"\x00cloister-end me 0\ncommand terminated with exit code 137\nlater\n", "later\n", 0, true},
		{"a\x00b\x00\x00cloister-end me 0\n", "a\x00b\x00", 0, true},
		{"\x00cloister-end you 0\n", "\x00cloister-end you 0\n", -1, false},
		{"\x00cloister-end me 256\n", "\x00cloister-end me 256\n", -1, false},
		{"\x00cloister-end me x\n", "\x00cloister-end me x\n", -1, false},
		{"\x00cloister-end me ", "\x00cloister-end me ", -1, false},
	} {
		for _, piece := range []int{1, 3, 1000} {
			var out bytes.Buffer
			e := pod.NewEnd(&out, "me")
			for rest := []byte(tt.in); len(rest) > 0; {
				n := min(piece, len(rest))
				if _, err := e.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
			code, come := e.Code()
			if out.String() != tt.out || code != tt.code || come != tt.come {
				t.Errorf("%q in pieces of %d: %q, %d, %v", tt.in, piece, out.String(), code, come)
			}
		}
	}
}

// TestReady: that a command asks for what to run is passed on to nobody, once; without a terminal it is the command's own.
func TestReady(t *testing.T) {
	const asks = "\x00cloister-ready me\x00"
	for _, piece := range []int{1, 3, 1000} {
		var out bytes.Buffer
		e := pod.NewEnd(&out, "me")
		ready := e.Ready()
		for rest := []byte("motd\n" + asks + "words" + asks + "\x00cloister-end me 7\n"); len(rest) > 0; {
			n := min(piece, len(rest))
			if _, err := e.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		select {
		case <-ready:
		default:
			t.Error("it is not ready")
		}
		if code, come := e.Code(); out.String() != "motd\nwords"+asks || code != 7 || !come {
			t.Errorf("in pieces of %d: %q, %d, %v", piece, out.String(), code, come)
		}
	}
	var out bytes.Buffer
	e := pod.NewEnd(&out, "me")
	if _, err := e.Write([]byte(asks)); err != nil || e.Flush() != nil || out.String() != asks {
		t.Errorf("without a terminal: %q, %v", out.String(), err)
	}
}

func TestWrong(t *testing.T) {
	good := pod.Canary{NoNewPrivs: true, Seccomp: true, UID: 1000, Gate: true, Proof: "p"}
	if wrong := good.Wrong(1000, "p"); wrong != "" {
		t.Error(wrong)
	}
	for want, change := range map[string]func(*pod.Canary){
		"interface eth0":         func(c *pod.Canary) { c.Interfaces = []string{"eth0"} },
		"capabilities: CapBnd 1": func(c *pod.Canary) { c.Capabilities = "CapBnd 1" },
		"gain privileges":        func(c *pod.Canary) { c.NoNewPrivs = false },
		"filter of system calls": func(c *pod.Canary) { c.Seccomp = false },
		"another user":           func(c *pod.Canary) { c.UID = 0 },
		"does not see its gate":  func(c *pod.Canary) { c.Gate = false },
		"another pod's":          func(c *pod.Canary) { c.Proof = "" },
	} {
		c := good
		change(&c)
		if wrong := c.Wrong(1000, "p"); !strings.Contains(wrong, want) {
			t.Errorf("%q, want %q", wrong, want)
		}
	}
}
