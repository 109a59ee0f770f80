package hostcommands

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"cloister/api"
	"cloister/audit"
	"cloister/audit/recorder"
	"cloister/git"
	"cloister/guardian/sessionctx"
	"cloister/policy"
	"cloister/session/stats"
)

// TestManyHideNone: of a push that brings more files than a summary names, the record says that there are further ones.
func TestManyHideNone(t *testing.T) {
	dir := t.TempDir()
	records, err := recorder.Open(dir, slog.New(slog.DiscardHandler), func(audit.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := policy.Compile(policy.Input{})
	if err != nil {
		t.Fatal(err)
	}
	c := &sessionctx.Context{Info: api.SessionInfo{ID: "1", Name: "h"}, Records: records, Tally: stats.New(api.SessionSummary{})}
	c.Snapshot.Store(snapshot)
	w := &gitwork{hosted: &hosted{s: &Session{Context: c}}}
	push := func(files ...string) {
		w.list(t.Context(), &git.Push{Updates: []git.Update{{Ref: "refs/heads/cloister/h", There: files}}})
	}
	var decoys []string
	for i := range 64 {
		decoys = append(decoys, fmt.Sprintf(".vscode/%d", i))
	}
	push(decoys...)
	push("plain", ".envrc", ".husky/pre-commit")
	n, told := 0, ""
	for e, err := range audit.Read(dir, audit.Filter{Kind: audit.AutorunChanged}) {
		if err != nil {
			t.Fatal(err)
		}
		n, told = n+1, e.Resource+" "+e.Reason
	}
	if n != 65 || !strings.Contains(told, "further files of this push on cloister/h") {
		t.Errorf("%d records, the last says %q", n, told)
	}
}
