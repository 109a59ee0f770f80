package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/audit"
)

var (
	hashMember = regexp.MustCompile(`,"hash":"[0-9a-f]*"}$`)
	prevMember = regexp.MustCompile(`"prev":"[0-9a-f]*"`)
	seqMember  = regexp.MustCompile(`"seq":[0-9]+`)
	keyMember  = regexp.MustCompile(`"key":"[0-9a-f]*",`)
)

// rechain computes every hash of the lines again, and the anchor, as somebody can who
// has the files and not the keys.
func rechain(lines []string, keepKeys bool) (text, anchor []byte) {
	prev := strings.Repeat("0", 64)
	for i, l := range lines {
		if !keepKeys {
			l = keyMember.ReplaceAllString(l, "")
		}
		l = seqMember.ReplaceAllString(l, fmt.Sprintf(`"seq":%d`, i+1))
		l = hashMember.ReplaceAllString(prevMember.ReplaceAllString(l, `"prev":"`+prev+`"`), "}")
		sum := sha256.Sum256([]byte(l))
		prev = hex.EncodeToString(sum[:])
		text = append(text, strings.TrimSuffix(l, "}")+`,"hash":"`+prev+"\"}\n"...)
	}
	slot, err := json.Marshal(map[string]any{"seq": len(lines), "hash": prev})
	if err != nil {
		panic(err)
	}
	slot = append(slot, bytes.Repeat([]byte(" "), 127-len(slot))...)
	return text, bytes.Repeat(append(slot, '\n'), 2)
}

func lines(text []byte) []string {
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// recorded is a closed record of six events, three of them from before there were keys
// where that is wanted.
func recorded(t *testing.T, unkeyed bool) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "audit")
	l := open(t, dir, audit.Options{})
	if unkeyed {
		audit.Unkeyed(l)
		add(t, l, "h1.example", "h2.example", "h3.example")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		// As it was: an anchor of two unkeyed slots.
		text := must(os.ReadFile(filepath.Join(dir, "audit-000001.jsonl")))
		_, anchor := rechain(lines(text), false)
		put(t, filepath.Join(dir, "anchor"), anchor)
		if r := verify(t, dir); r.Unkeyed != 3 || len(r.Keys) != 0 {
			t.Fatalf("before there were keys: %+v", r)
		}
		l = open(t, dir, audit.Options{})
	} else {
		add(t, l, "h1.example", "h2.example", "h3.example")
	}
	add(t, l, "h4.example", "h5.example", "h6.example")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRechained is LG-20: without the key nothing that is computed again passes.
func TestRechained(t *testing.T) {
	for _, unkeyed := range []bool{false, true} {
		for _, tc := range []struct {
			name   string
			change func(l []string) []string
		}{
			{"nothing changed", func(l []string) []string { return l }},
			{"one removed", func(l []string) []string { return slices.Delete(l, 4, 5) }},
			{"an old one removed", func(l []string) []string { return slices.Delete(l, 1, 2) }},
			{"two reordered", func(l []string) []string { l[4], l[5] = l[5], l[4]; return l }},
			{"one edited", func(l []string) []string { l[5] = strings.Replace(l[5], "h6", "h9", 1); return l }},
			{"the tail cut", func(l []string) []string { return l[:5] }},
			{"all that is keyed cut", func(l []string) []string { return l[:3] }},
		} {
			for _, keepKeys := range []bool{false, true} {
				t.Run(fmt.Sprintf("unkeyed at first %v, key members kept %v/%s", unkeyed, keepKeys, tc.name), func(t *testing.T) {
					dir := recorded(t, unkeyed)
					verify(t, dir) // control
					file := filepath.Join(dir, "audit-000001.jsonl")
					text, anchor := rechain(tc.change(lines(must(os.ReadFile(file)))), keepKeys)
					put(t, file, text)
					put(t, filepath.Join(dir, "anchor"), anchor)
					_, err := audit.Verify(dir)
					bad, ok := errors.AsType[*audit.BadRecord](err)
					// Those of before can be written anew up to where the keyed ones follow.
					if !ok || !unkeyed && bad.Seq != 1 || unkeyed && (bad.Seq < 3 || bad.Seq > 4) {
						t.Errorf("verify: %v", err)
					}
					if l, err := audit.Open(dir, audit.Options{}); err == nil {
						_ = l.Close()
						t.Error("it was opened")
					}
				})
			}
		}
	}
}

// An older copy of the whole folder, its own anchor and all, is a cut tail.
func TestOlderCopy(t *testing.T) {
	dir := recorded(t, false)
	old := taken(t, dir)
	l := open(t, dir, audit.Options{})
	add(t, l, "later.example")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	verify(t, dir)
	for name, text := range old {
		if !strings.HasPrefix(name, "keys/") {
			put(t, at(dir, name), text)
		}
	}
	if _, err := audit.Verify(dir); err == nil || !strings.Contains(err.Error(), "names record 7") {
		t.Errorf("verify: %v", err)
	}
	if _, err := audit.Open(dir, audit.Options{}); err == nil || !strings.Contains(err.Error(), "names record 7") {
		t.Errorf("open: %v", err)
	}
}

// A new key comes in time, in the middle of a log too, and what the older one made is
// still proven; a record of the new time is not proven by the old key.
func TestKeysRotate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	var days atomic.Int64 // the log reads the clock from its own goroutine too
	began := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	o := audit.Options{SegmentBytes: 1500, Now: func() time.Time { return began.AddDate(0, 0, int(days.Load())) }}
	for range 3 {
		l := open(t, dir, o)
		for range 2 {
			add(t, l, "a.example", "b.example", "c.example", "d.example", "e.example")
			days.Add(31)
			if err := audit.Sync(l); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := verify(t, dir)
	if r.Records != 30 || len(r.Keys) != 6 || r.Unkeyed != 0 {
		t.Errorf("%+v; want 30 records under 6 keys", r)
	}
	if n := len(hosts(t, dir, audit.Filter{})); n != 30 {
		t.Errorf("%d read", n)
	}
	info := must(os.Stat(filepath.Join(audit.KeysDir(dir), "keys.json")))
	folder := must(os.Stat(audit.KeysDir(dir)))
	if info.Mode().Perm() != 0o600 || folder.Mode().Perm() != 0o700 {
		t.Errorf("modes %v and %v", info.Mode(), folder.Mode())
	}
}

// Without its keys a record proves nothing, is not continued, and says so.
func TestKeysGone(t *testing.T) {
	dir := recorded(t, true)
	if err := os.RemoveAll(audit.KeysDir(dir)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"verify": second(audit.Verify(dir)), "open": second(audit.Open(dir, audit.Options{})),
	} {
		bad, ok := errors.AsType[*audit.BadRecord](err)
		if !ok || bad.Seq != 4 || !strings.Contains(bad.Reason, "which is not in "+audit.KeysDir(dir)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A record whose folder was moved away as a whole is followed by one that says so.
func TestBegunAnew(t *testing.T) {
	dir := recorded(t, false)
	away := dir + "-old"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(dir); err == nil {
		t.Error("a record that is not there verifies")
	}
	l := open(t, dir, audit.Options{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := verify(t, dir)
	for e := range audit.Read(dir, audit.Filter{}) {
		if !strings.Contains(e.Reason, "is not in its folder; it ended with record 6") {
			t.Errorf("it says %q", e.Reason)
		}
	}
	if r.Records != 1 || r.Retired != 1 {
		t.Errorf("%+v", r)
	}
}

// An anchor from elsewhere holds where every key is known.
func TestAnchorElsewhere(t *testing.T) {
	dir := recorded(t, false)
	file := filepath.Join(t.TempDir(), "anchors.jsonl")
	for range 2 {
		a, err := audit.Head(dir, verify(t, dir), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := audit.AppendAnchor(file, a); err != nil {
			t.Fatal(err)
		}
		l := open(t, dir, audit.Options{})
		add(t, l, "more.example")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	anchors := must(audit.ReadAnchors(file))
	r, err := audit.Verify(dir, anchors...)
	if err != nil || len(r.Outside) != 1 || r.Outside[0].Seq != 7 || r.Outside[0].Number != 2 || r.Outside[0].Where != file {
		t.Fatalf("%v %+v", err, r.Outside)
	}
	// Somebody with the keys begins the record anew, and it is whole by itself.
	if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(audit.KeysDir(dir))); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, audit.Options{})
	add(t, l, "1.example", "2.example", "3.example", "4.example", "5.example", "6.example", "7.example", "8.example")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	verify(t, dir)
	if _, err := audit.Verify(dir, anchors...); err == nil || !strings.Contains(err.Error(), "it is not the record that "+file+":1 names") {
		t.Errorf("verify: %v", err)
	}
	put(t, file, []byte("{}\n"))
	if _, err := audit.ReadAnchors(file); err == nil {
		t.Error("a line that is no anchor was passed over")
	}
}

func second[T any](_ T, err error) error { return err }
