//go:build linux

package guardian_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/api"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/folders"
)

// save posts a text for config.yaml, as the window does, and gives status and answer.
func save(t *testing.T, root, text, base string) (int, string) {
	t.Helper()
	body, err := json.Marshal(api.PolicyDraft{Name: "config.yaml", Text: text, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", folders.Socket(dirs(root)))
	}}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://guardian"+api.PathPolicyFiles, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// TestSaveIsRecordedFirst: what a person saves stands in the record before it
// stands on the disk, and what cannot be recorded is not saved.
func TestSaveIsRecordedFirst(t *testing.T) {
	root := home(t, twoNames)
	child := spawn(t, root, "GUARDIAN_TEST_FSIZE=40000")
	c := dial(t, root)
	file := filepath.Join(root, "config", "config.yaml")
	next := twoNames + "# a person's\n"
	if status, answer := save(t, root, next, config.Digest([]byte(twoNames))); status != http.StatusOK {
		t.Fatalf("control: save while all is well: %d %s", status, answer)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != next {
		t.Fatalf("the file has %q, %v", got, err)
	}
	lines := story(t, root, audit.Filter{Kind: audit.PolicyLoad})
	if at := slices.Index(lines, "policy.load save allow"); at < 0 || at == len(lines)-1 || lines[at+1] != "policy.load load allow" {
		t.Errorf("the record is %q", lines)
	}
	// Nothing is saved of what is no policy, or written over what came between.
	for name, text := range map[string]string{"no policy": next + "hostexcc: {}\n", "another's": twoNames} {
		base := config.Digest([]byte(next))
		if name == "another's" {
			base = config.Digest([]byte(twoNames))
		}
		if status, answer := save(t, root, text, base); status < 400 {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	// The disk is full for the record, and still takes a small file.
	g := newGate(t)
	arm(t, openSession(t, c, request("box")), g)
	waitFor(t, func() bool {
		_, err := g.resolve(t, "good.example", 20*time.Second)
		st, err2 := c.Status(t.Context())
		return err == nil && err2 == nil && st.AuditError != ""
	})
	status, answer := save(t, root, next+"# unrecorded\n", config.Digest([]byte(next)))
	if status != http.StatusServiceUnavailable || !strings.Contains(answer, string(api.CodeUnrecorded)) {
		t.Errorf("a save that cannot be recorded: %d %s", status, answer)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != next {
		t.Errorf("the file has %q, %v", got, err)
	}
	if err := unix.Prlimit(child.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		status, _ := save(t, root, next+"# recorded again\n", config.Digest([]byte(next)))
		return status == http.StatusOK
	})
	verified(t, root)
}
