package errtext_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/egress/internal/errtext"
)

func TestGit(t *testing.T) {
	for sent, want := range map[string]string{
		"application/x-git-upload-pack-request": "ERR no\n", "application/x-git-receive-pack-request": "\x03no\n",
		"application/x-git-other-request": "", "application/x-git-receive-pack": "", "application/json": "", "": "",
	} {
		kind, body := errtext.Git(sent, "no\n")
		packet := strings.TrimSuffix(string(body), "0000")
		if want == "" {
			if kind != "" || len(body) > 0 {
				t.Errorf("%q: %q %q", sent, kind, body)
			}
			continue
		}
		n, err := strconv.ParseInt(packet[:4], 16, 32)
		if err != nil || int(n) != len(packet) || packet[4:] != want || kind != strings.Replace(sent, "-request", "-result", 1) {
			t.Errorf("%q: %q %q", sent, kind, body)
		}
	}
	if _, body := errtext.Git("application/x-git-upload-pack-request", strings.Repeat("x", 1<<20)); len(body) > 65520 {
		t.Errorf("a packet of %d bytes", len(body))
	}
}

func TestGRPC(t *testing.T) {
	if got := errtext.GRPCText("a\n%é"); got != "a%0A%25%C3%A9" {
		t.Error(got)
	}
	for text, want := range map[string]time.Duration{"5S": 5 * time.Second, "20m": 20 * time.Millisecond, "": 0, "5": 0, "xS": 0} {
		if d, ok := errtext.GRPCTimeout(text); ok != (want > 0) || ok && d != want {
			t.Errorf("%q: %s, %t", text, d, ok)
		}
	}
	if errtext.GRPCStatus(403) != 7 || errtext.GRPCStatus(429) != errtext.GRPCExhausted || errtext.GRPCStatus(400) != errtext.GRPCInternal {
		t.Error("codes")
	}
}

func TestWantsText(t *testing.T) {
	for _, tt := range []struct {
		accept, agent string
		want          bool
	}{
		{"", "", false}, {"*/*", "curl/8", false}, {"text/plain", "", true}, {"text/html;q=0.9,*/*", "", true},
		{"text/plain,application/json", "", false}, {"*/*", "git/2.39.5", true}, {"*/*", "digit/1", false},
	} {
		if got := errtext.WantsText(strings.Split(tt.accept, ","), tt.agent); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}
