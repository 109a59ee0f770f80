package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/audit"
)

// Back is Read the other way round, whatever the blocks and segments cut.
func TestBackIsReadReversed(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l, err := audit.Open(dir, audit.Options{SegmentBytes: 700 << 10, Now: func() time.Time { now = now.Add(time.Second); return now }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		e := audit.Event{Kind: audit.NetDNS, Session: fmt.Sprint("s", i%3), Resource: strings.Repeat("x", (i*7919)%6000)}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]audit.Filter{"all": {}, "of one session": {Session: "s1"}, "since": {Since: now.Add(-100 * time.Second)}, "none": {Session: "other"}} {
		var forth, back []uint64
		for e, err := range audit.Read(dir, f) {
			if err != nil {
				t.Fatal(err)
			}
			forth = append(forth, e.Seq)
		}
		for e, err := range audit.Back(dir, f) {
			if err != nil {
				t.Fatal(err)
			}
			back = append(back, e.Seq)
		}
		slices.Reverse(back)
		if !slices.Equal(forth, back) || name == "all" && len(back) != 600 {
			t.Errorf("%s: %d events forth, %d back", name, len(forth), len(back))
		}
	}
	// Who has enough stops it; a line that is being written is none; one that was
	// changed is told, and those before it still come.
	files, err := filepath.Glob(filepath.Join(dir, "audit-*.jsonl"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d segments, %v", len(files), err)
	}
	last := files[len(files)-1]
	text, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	lines[len(lines)-2] = strings.Replace(lines[len(lines)-2], `"session":"s`, `"session":"t`, 1)
	if err := os.WriteFile(last, []byte(strings.Join(lines, "")+`{"v":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	bad, n := 0, 0
	for _, err := range audit.Back(dir, audit.Filter{}) {
		if err != nil {
			bad++
		} else if n++; n == 10 {
			break
		}
	}
	if bad != 1 || n != 10 {
		t.Errorf("%d bad, %d good", bad, n)
	}
	for range audit.Back(t.TempDir(), audit.Filter{}) {
		t.Error("something from nothing")
	}
}

func TestAppendedIsTold(t *testing.T) {
	var told []audit.Event
	l, err := audit.Open(t.TempDir(), audit.Options{Appended: func(e audit.Event) { told = append(told, e) }})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.Append(t.Context(), audit.Event{Kind: audit.NetDNS}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 3 || told[2].Seq != 3 || told[2].Hash == "" || told[2].Prev != told[1].Hash {
		t.Errorf("told %+v", told)
	}
}
