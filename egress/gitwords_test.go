package egress_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"cloister/egress"
)

// A refusal of git's own requests is told in git's protocol, by packets of the right
// length, and of a body that goes on no stream is broken off.
func TestGitWords(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, editServer(t, ca), bounded(egress.Quota{RequestBytes: 10}))
	for sent, want := range map[string]string{
		"application/x-git-upload-pack-request": "ERR cloister refused", "application/x-git-receive-pack-request": "\x03cloister refused",
		"application/x-git-other-request": "", "application/x-git-receive-pack": "",
	} {
		for _, client := range []*http.Client{w.client(), w.client2()} {
			resp, err := client.Post("https://api.test/a.git/x", sent, strings.NewReader(strings.Repeat("x", 300<<10)))
			if err != nil {
				t.Fatalf("%s: %v", sent, err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.Contains(string(got), "max_request_bytes: 327680") {
				t.Errorf("%s by %s: %q, %v", sent, resp.Proto, got, err)
			}
			if want == "" {
				if resp.StatusCode != 413 {
					t.Errorf("%s by %s: %d %s", sent, resp.Proto, resp.StatusCode, got)
				}
				continue
			}
			n, err := strconv.ParseInt(string(got[:4]), 16, 32)
			rest := strings.TrimSuffix(string(got), "0000")
			if err != nil || int(n) != len(rest) || !strings.HasPrefix(rest[4:], want) || resp.StatusCode != 200 ||
				resp.Header.Get("Content-Type") != strings.Replace(sent, "-request", "-result", 1) {
				t.Errorf("%s by %s: %d %q, %v", sent, resp.Proto, resp.StatusCode, got, err)
			}
		}
	}
}
