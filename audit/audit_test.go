package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"cloister/audit"
)

func TestMain(m *testing.M) {
	if os.Getenv("AUDIT_TEST_FULL") != "" {
		os.Exit(childOnFullDisk(os.Getenv("AUDIT_TEST_FULL")))
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string, o audit.Options) *audit.Log {
	t.Helper()
	l, err := audit.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func add(t *testing.T, l *audit.Log, hosts ...string) {
	t.Helper()
	for _, h := range hosts {
		err := l.Append(t.Context(), audit.Event{Kind: audit.NetConnect, Session: "box", SessionID: "0123456789abcdef", Action: "connect", Host: h, Port: 443, Verdict: "allow"})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func hosts(t *testing.T, dir string, f audit.Filter) []string {
	t.Helper()
	var got []string
	for e, err := range audit.Read(dir, f) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Host)
	}
	return got
}

func verify(t *testing.T, dir string) audit.Report {
	t.Helper()
	r, err := audit.Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestChainContinuesOverRestartAndRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	var want []string
	for start := range 3 {
		l := open(t, dir, audit.Options{SegmentBytes: 1500})
		for i := range 7 {
			h := fmt.Sprintf("h%d-%d.example", start, i)
			want = append(want, h)
			add(t, l, h)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, hosts(t, dir, audit.Filter{})); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	r := verify(t, dir)
	if r.Records != 21 || r.Segments < 4 || r.Anchored != 21 || r.TornBytes != 0 {
		t.Errorf("report %+v; want 21 records, all anchored, in 4 and more segments", r)
	}
	for _, e := range must(os.ReadDir(dir)) {
		info := must(e.Info())
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", e.Name(), info.Mode())
		}
		if strings.HasSuffix(e.Name(), ".jsonl") && info.Size() > 1500 {
			t.Errorf("%s has %d bytes, want at most 1500", e.Name(), info.Size())
		}
	}
	if info := must(os.Stat(dir)); info.Mode().Perm() != 0o700 {
		t.Errorf("folder has mode %v, want 0700", info.Mode())
	}
}

func TestConcurrentAppendsAreOneChain(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, audit.Options{SegmentBytes: 4096})
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 25 {
				if err := l.Append(t.Context(), audit.Event{Kind: audit.NetDNS, Host: fmt.Sprintf("%d-%d", w, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// Verified while the log is open: the anchor must not be ahead.
	if r := verify(t, dir); r.Records != 200 {
		t.Errorf("%d records, want 200", r.Records)
	}
}

// TestTornTail cuts the last record at every byte, as a crash would.
func TestTornTail(t *testing.T) {
	whole := t.TempDir()
	l := open(t, whole, audit.Options{})
	add(t, l, "one.example", "two.example")
	// The anchor must not name the record that the crash tears.
	anchor := must(os.ReadFile(filepath.Join(whole, "anchor")))
	keys := must(os.ReadFile(filepath.Join(audit.KeysDir(whole), "keys.json")))
	add(t, l, "torn.example")
	text := must(os.ReadFile(filepath.Join(whole, "audit-000001.jsonl")))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lastLine := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for cut := lastLine + 1; cut < len(text); cut += 7 {
		dir := t.TempDir()
		lay(t, dir, map[string][]byte{"anchor": anchor, "audit-000001.jsonl": text[:cut], "keys/keys.json": keys})
		if got := hosts(t, dir, audit.Filter{}); !slices.Equal(got, []string{"one.example", "two.example"}) {
			t.Fatalf("cut at %d: before the repair read %v", cut, got)
		}
		l := open(t, dir, audit.Options{})
		add(t, l, "after.example")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := hosts(t, dir, audit.Filter{Kind: audit.NetConnect}), []string{"one.example", "two.example", "after.example"}; !slices.Equal(got, want) {
			t.Fatalf("cut at %d: read %v, want %v", cut, got, want)
		}
		var note audit.Event
		for e := range audit.Read(dir, audit.Filter{Kind: audit.GuardianStart}) {
			note = e
		}
		if want := fmt.Sprintf("%d bytes of a torn record", cut-lastLine); note.Action != "recover" || !strings.Contains(note.Reason, want) {
			t.Fatalf("cut at %d: note %q %q, want %q", cut, note.Action, note.Reason, want)
		}
		verify(t, dir)
	}
}

// TestUnsyncedGarbageIsCut is the power loss that leaves a hole of zeros
// where pages were never written, behind the anchor.
func TestUnsyncedGarbageIsCut(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, audit.Options{})
	add(t, l, "kept.example")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f := must(os.OpenFile(filepath.Join(dir, "audit-000001.jsonl"), os.O_APPEND|os.O_WRONLY, 0))
	if _, err := f.Write(append(make([]byte, 500), "garbage\n{\"v\":1}\n"...)); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	l = open(t, dir, audit.Options{})
	add(t, l, "next.example")
	if got := hosts(t, dir, audit.Filter{Kind: audit.NetConnect}); !slices.Equal(got, []string{"kept.example", "next.example"}) {
		t.Errorf("read %v", got)
	}
	verify(t, dir)
}

// TestVerifyNamesTheFirstBadRecord is LG-03.
func TestVerifyNamesTheFirstBadRecord(t *testing.T) {
	type files = map[string][]byte
	const first, second = "audit-000001.jsonl", "audit-000002.jsonl"
	swap := func(text []byte, i, j int) []byte {
		l := bytes.SplitAfter(text, []byte("\n"))
		l[i], l[j] = l[j], l[i]
		return bytes.Join(l, nil)
	}
	drop := func(text []byte, i int) []byte {
		l := bytes.SplitAfter(text, []byte("\n"))
		return bytes.Join(slices.Delete(l, i, i+1), nil)
	}
	for _, tc := range []struct {
		name   string
		change func(f, other files)
		file   string
		line   int
		seq    uint64
	}{
		{"edit a host", func(f, _ files) {
			f[first] = bytes.Replace(f[first], []byte("h2.example"), []byte("h9.example"), 1)
		}, first, 3, 3},
		{"edit a space into the record", func(f, _ files) {
			f[first] = bytes.Replace(f[first], []byte(`"v":1`), []byte(`"v": 1`), 1)
		}, first, 1, 1},
		{"delete a record", func(f, _ files) { f[first] = drop(f[first], 1) }, first, 2, 2},
		{"delete the first record", func(f, _ files) { f[first] = drop(f[first], 0) }, first, 1, 1},
		{"reorder", func(f, _ files) { f[first] = swap(f[first], 1, 2) }, first, 2, 2},
		{"truncate the tail at a record", func(f, _ files) {
			f[second] = drop(f[second], bytes.Count(f[second], []byte("\n"))-1)
		}, second, 0, 8},
		{"truncate the tail inside a record", func(f, _ files) { f[second] = f[second][:len(f[second])-9] }, second, 0, 8},
		{"remove the last segment", func(f, _ files) { delete(f, second) }, first, 0, 5},
		{"remove the first segment", func(f, _ files) { delete(f, first) }, second, 1, 1},
		{"remove everything but the anchor", func(f, _ files) { delete(f, first); delete(f, second) }, first, 0, 1},
		{"remove the anchor", func(f, _ files) { delete(f, "anchor") }, "anchor", 0, 8},
		{"splice another log's record in", func(f, other files) {
			l := bytes.SplitAfter(f[first], []byte("\n"))
			l[1] = bytes.SplitAfter(other[first], []byte("\n"))[1]
			f[first] = bytes.Join(l, nil)
		}, first, 2, 2},
		{"replace a segment by another log's", func(f, other files) { f[second] = other[second] }, second, 1, 5},
		{"another log's record at the anchor", func(f, other files) {
			f[first], f[second] = other[first], other[second]
		}, first, 1, 1},
		{"a blank line", func(f, _ files) { f[first] = append([]byte("\n"), f[first]...) }, first, 1, 1},
		{"an endless line", func(f, _ files) {
			f[first] = append(bytes.Repeat([]byte("x"), 3*audit.MaxRecord), append([]byte("\n"), f[first]...)...)
		}, first, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, other := eight(t, "h"), eight(t, "o")
			tc.change(f, other)
			dir := t.TempDir()
			lay(t, dir, f)
			_, err := audit.Verify(dir)
			var bad *audit.BadRecord
			if !errors.As(err, &bad) {
				t.Fatalf("verify: %v, want a BadRecord", err)
			}
			if bad.File != tc.file || bad.Line != tc.line || bad.Seq != tc.seq {
				t.Errorf("bad record %s:%d seq %d (%s), want %s:%d seq %d", bad.File, bad.Line, bad.Seq, bad.Reason, tc.file, tc.line, tc.seq)
			}
		})
	}
}

// eight makes a log of 8 records in 2 segments, four each.
func eight(t *testing.T, prefix string) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	at := time.Date(2026, 11, 21, 4, 0, 0, 123456789, time.UTC)
	l := open(t, dir, audit.Options{SegmentBytes: 2068, Now: func() time.Time { return at }})
	for i := range 8 {
		add(t, l, fmt.Sprintf("%s%d.example", prefix, i))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files := taken(t, dir)
	for name, n := range map[string]int{"audit-000001.jsonl": 4, "audit-000002.jsonl": 4} {
		if got := bytes.Count(files[name], []byte("\n")); got != n {
			t.Fatalf("%s has %d records, the table wants %d", name, got, n)
		}
	}
	verify(t, dir)
	return files
}

// taken are the files of a record and, as keys/NAME, those of its keys.
func taken(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for prefix, dir := range map[string]string{"": dir, "keys/": audit.KeysDir(dir)} {
		for _, e := range must(os.ReadDir(dir)) {
			files[prefix+e.Name()] = must(os.ReadFile(filepath.Join(dir, e.Name())))
		}
	}
	return files
}

func at(dir, name string) string {
	if name, ok := strings.CutPrefix(name, "keys/"); ok {
		return filepath.Join(audit.KeysDir(dir), name)
	}
	return filepath.Join(dir, name)
}

// lay writes what taken gave.
func lay(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(at(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, at(dir, name), text)
	}
}

// TestOpenRefusesATamperedTail: what the anchor says was durable is not cut
// away as if a crash had done it.
func TestOpenRefusesATamperedTail(t *testing.T) {
	for name, change := range map[string]func(f map[string][]byte){
		"cut tail": func(f map[string][]byte) {
			f["audit-000002.jsonl"] = f["audit-000002.jsonl"][:700]
		},
		"edited": func(f map[string][]byte) {
			f["audit-000002.jsonl"] = bytes.Replace(f["audit-000002.jsonl"], []byte("h7"), []byte("h1"), 1)
		},
		"edited without anchor": func(f map[string][]byte) {
			f["audit-000002.jsonl"] = bytes.Replace(f["audit-000002.jsonl"], []byte("h5"), []byte("h1"), 1)
			delete(f, "anchor")
		},
		"nothing left": func(f map[string][]byte) { delete(f, "audit-000001.jsonl"); delete(f, "audit-000002.jsonl") },
	} {
		t.Run(name, func(t *testing.T) {
			f := eight(t, "h")
			change(f)
			dir := t.TempDir()
			lay(t, dir, f)
			l, err := audit.Open(dir, audit.Options{})
			if _, ok := errors.AsType[*audit.BadRecord](err); !ok {
				if err == nil {
					_ = l.Close()
				}
				t.Fatalf("open: %v, want a BadRecord", err)
			}
			for name, text := range f {
				if now := must(os.ReadFile(at(dir, name))); !bytes.Equal(now, text) {
					t.Errorf("%s was changed by the refused open", name)
				}
			}
		})
	}
}

// TestInjection is LG-01: whatever a field holds, the file has one line for
// the event, no raw control byte, and reads back.
func TestInjection(t *testing.T) {
	for name, evil := range map[string]string{
		"line ends":          "a\r\nb\nc",
		"json":               `","verdict":"allow","x":"{}`,
		"ansi":               "\x1b[2J\x1b]52;c;aGk=\x07",
		"c1 csi":             "\u009b31m",
		"del":                "a\x7fb",
		"nul":                "a\x00b",
		"line separator":     "a\u2028b\u2029c",
		"right to left":      "exe.\u202egpj",
		"zero width":         "a\u200bb\ufeffc",
		"no-break space":     "a\u00a0b",
		"hangul filler":      "a\u3164b\u115fc",
		"variation selector": "a\ufe0fb\U000e0101c",
		"tag letters":        "a\U000e0041b",
		"not utf-8":          "a\xff\xfeb",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, audit.Options{})
			want := audit.Event{
				Session: evil, Project: evil, Agent: evil, Kind: audit.HTTPRequest, Action: evil, Resource: evil, Verdict: "deny",
				Rule: evil, Reason: evil, Policy: evil, Host: evil, Method: evil, Path: evil,
			}
			if err := l.Append(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			text := must(os.ReadFile(filepath.Join(dir, "audit-000001.jsonl")))
			if n := bytes.Count(text, []byte("\n")); n != 1 || text[len(text)-1] != '\n' {
				t.Fatalf("%d lines, want 1", n)
			}
			for i, c := range text[:len(text)-1] {
				if c < 0x20 || c >= 0x7f {
					t.Fatalf("raw byte %#x at %d: %q", c, i, text)
				}
			}
			var generic map[string]any
			if err := json.Unmarshal(text, &generic); err != nil {
				t.Fatal(err)
			}
			if generic["verdict"] != "deny" || generic["x"] != nil {
				t.Errorf("the event was forged: %s", text)
			}
			for e, err := range audit.Read(dir, audit.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if got, want := e.Path, strings.ToValidUTF8(evil, "\ufffd"); got != want && name != "not utf-8" {
					t.Errorf("path reads back as %q, want %q", got, want)
				}
			}
			verify(t, dir)
		})
	}
}

func TestLettersStayReadable(t *testing.T) {
	dir := t.TempDir()
	add(t, open(t, dir, audit.Options{}), "größe-日本語-🙂")
	text := must(os.ReadFile(filepath.Join(dir, "audit-000001.jsonl")))
	if !bytes.Contains(text, []byte("größe-日本語-🙂")) {
		t.Errorf("escaped more than it must: %s", text)
	}
}

func TestHugeFieldsAreShortened(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, audit.Options{})
	huge := strings.Repeat("\x1b\u2028", 1<<20)
	if err := l.Append(t.Context(), audit.Event{Kind: audit.HTTPRequest, Path: huge, Reason: huge, Rule: huge, Host: huge, Resource: huge, Method: huge, Agent: huge, Project: huge}); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); r.Bytes > audit.MaxRecord {
		t.Errorf("%d bytes, want at most %d", r.Bytes, audit.MaxRecord)
	}
	for e := range audit.Read(dir, audit.Filter{}) {
		if !strings.HasSuffix(e.Path, "bytes more]") {
			t.Errorf("path does not say that it was cut: %q", e.Path[max(0, len(e.Path)-40):])
		}
	}
}

func TestLatch(t *testing.T) {
	for name, breakIt := range map[string]func(t *testing.T, l *audit.Log){
		"write": func(_ *testing.T, l *audit.Log) { audit.BreakFile(l) },
		"sync": func(t *testing.T, l *audit.Log) {
			audit.BreakFile(l)
			if err := audit.Sync(l); err == nil {
				t.Error("synced a closed file")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, audit.Options{})
			add(t, l, "recorded.example")
			breakIt(t, l)
			var first error
			for i := range 3 {
				err := l.Append(t.Context(), audit.Event{Kind: audit.NetConnect})
				if err == nil {
					t.Fatalf("append %d after the failure was acknowledged", i)
				}
				if first == nil {
					first = l.Err()
				}
				if !errors.Is(err, first) {
					t.Errorf("append %d: %v, want the first failure %v", i, err, first)
				}
			}
			if err := l.Close(); err == nil {
				t.Error("close hides the failure")
			}
			if got := hosts(t, dir, audit.Filter{}); !slices.Equal(got, []string{"recorded.example"}) {
				t.Errorf("read %v: an acknowledged record is lost, or another was invented", got)
			}
			again := open(t, dir, audit.Options{})
			add(t, again, "later.example")
			verify(t, dir)
		})
	}
}

// TestFullDisk lets a child write against RLIMIT_FSIZE, which cuts a write in
// the middle as a full disk does.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), "AUDIT_TEST_FULL="+dir)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	var acknowledged int
	if _, err := fmt.Sscanf(string(out), "acknowledged %d", &acknowledged); err != nil || acknowledged == 0 {
		t.Fatalf("child said %q", out)
	}
	if got := len(hosts(t, dir, audit.Filter{})); got != acknowledged {
		t.Errorf("%d records read, %d were acknowledged", got, acknowledged)
	}
	verify(t, dir)
	add(t, open(t, dir, audit.Options{}), "space.example")
	verify(t, dir)
}

func childOnFullDisk(dir string) int {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 3000, Max: 3000}); err != nil {
		fmt.Println(err)
		return 1
	}
	l, err := audit.Open(dir, audit.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	acknowledged := 0
	for range 100 {
		if l.Append(context.Background(), audit.Event{Kind: audit.NetConnect, Host: "full.example"}) == nil {
			acknowledged++
		}
	}
	if l.Err() == nil || l.Close() == nil {
		fmt.Println("the limit was not met")
		return 1
	}
	fmt.Println("acknowledged", acknowledged)
	return 0
}

func TestOpenRefuses(t *testing.T) {
	t.Run("a second writer", func(t *testing.T) {
		dir := t.TempDir()
		open(t, dir, audit.Options{})
		if _, err := audit.Open(dir, audit.Options{}); !errors.Is(err, audit.ErrInUse) {
			t.Errorf("second open: %v, want ErrInUse", err)
		}
	})
	t.Run("a link in the segment's place", func(t *testing.T) {
		dir := t.TempDir()
		target := filepath.Join(t.TempDir(), "target")
		put(t, target, nil)
		if err := os.Symlink(target, filepath.Join(dir, "audit-000001.jsonl")); err != nil {
			t.Fatal(err)
		}
		if _, err := audit.Open(dir, audit.Options{}); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("open through a link: %v, want ELOOP", err)
		}
	})
	t.Run("a file in the folder's place", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit")
		put(t, path, nil)
		if _, err := audit.Open(path, audit.Options{}); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("open of a file: %v, want ENOTDIR", err)
		}
	})
}

func TestFilter(t *testing.T) {
	at := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	l := open(t, dir, audit.Options{SegmentBytes: 1000})
	for i, e := range []audit.Event{
		{Session: "a", SessionID: "00112233445566", Kind: audit.NetDNS, Verdict: "deny"},
		{Session: "b", SessionID: "ffeeddccbbaa99", Kind: audit.NetConnect, Verdict: "allow"},
		{Session: "a", SessionID: "00112233445566", Kind: audit.NetConnect, Verdict: "deny"},
		{Session: "a", SessionID: "99999999999999", Kind: audit.NetConnect, Verdict: "allow"},
	} {
		e.Host, e.Time = fmt.Sprint(i), at.Add(time.Duration(i+1)*time.Minute)
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		filter audit.Filter
		want   []string
	}{
		"all":        {audit.Filter{}, []string{"0", "1", "2", "3"}},
		"name":       {audit.Filter{Session: "a"}, []string{"0", "2", "3"}},
		"id":         {audit.Filter{Session: "00112233445566"}, []string{"0", "2"}},
		"id prefix":  {audit.Filter{Session: "ffeeddcc"}, []string{"1"}},
		"too short":  {audit.Filter{Session: "ffee"}, nil},
		"kind":       {audit.Filter{Kind: audit.NetDNS}, []string{"0"}},
		"verdict":    {audit.Filter{Verdict: "allow"}, []string{"1", "3"}},
		"since":      {audit.Filter{Since: time.Date(2026, 11, 21, 4, 3, 0, 0, time.UTC)}, []string{"2", "3"}},
		"last":       {audit.Filter{Last: 2}, []string{"2", "3"}},
		"last of":    {audit.Filter{Last: 2, Session: "a"}, []string{"2", "3"}},
		"last large": {audit.Filter{Last: 99}, []string{"0", "1", "2", "3"}},
		"together":   {audit.Filter{Session: "a", Verdict: "deny", Kind: audit.NetConnect}, []string{"2"}},
	} {
		if got := hosts(t, dir, tc.filter); !slices.Equal(got, tc.want) {
			t.Errorf("%s: read %v, want %v", name, got, tc.want)
		}
	}
}

func TestReadGoesOnAfterABadLine(t *testing.T) {
	f := eight(t, "h")
	dir := t.TempDir()
	f["audit-000001.jsonl"] = bytes.Replace(f["audit-000001.jsonl"], []byte("h1.example"), []byte("hX.example"), 1)
	lay(t, dir, f)
	var got []string
	for e, err := range audit.Read(dir, audit.Filter{}) {
		if bad, ok := errors.AsType[*audit.BadRecord](err); ok {
			got = append(got, fmt.Sprintf("bad %s:%d", bad.File, bad.Line))
			continue
		}
		got = append(got, e.Host)
	}
	if want := []string{"h0.example", "bad audit-000001.jsonl:2", "h2.example", "h3.example"}; !slices.Equal(got[:4], want) || len(got) != 8 {
		t.Errorf("read %v, want %v and four more", got, want)
	}
}

func TestReadOfNothing(t *testing.T) {
	if got := hosts(t, filepath.Join(t.TempDir(), "missing"), audit.Filter{}); got != nil {
		t.Errorf("read %v from nothing", got)
	}
}

func TestFollowSeesWhatComesOverRotation(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := audit.Open(dir, audit.Options{SegmentBytes: 1200})
		if err != nil {
			t.Fatal(err)
		}
		add(t, l, "past0.example", "past1.example")
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for e, err := range audit.Follow(ctx, dir, audit.Filter{Last: 1}) {
				if err != nil {
					t.Error(err)
				}
				got = append(got, e.Host)
			}
		})
		want := []string{"past1.example"}
		time.Sleep(time.Second) //nolint:forbidigo // the clock is synctest's
		for i := range 10 {
			h := fmt.Sprintf("new%d.example", i)
			want = append(want, h)
			add(t, l, h)
			time.Sleep(30 * time.Millisecond) //nolint:forbidigo // the clock is synctest's
		}
		time.Sleep(time.Second) //nolint:forbidigo // the clock is synctest's
		cancel()
		watcher.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("followed (-want +got):\n%s", diff)
		}
	})
}

// The text of each line is what the file holds, also where only the newest are kept.
func TestLinesAreTheRecord(t *testing.T) {
	dir := t.TempDir()
	l, err := audit.Open(dir, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	add(t, l, "a.example", "longer.b.example", "c.example", "d.example", "long.long.e.example")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit-000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	for last := range len(all) + 1 {
		var got strings.Builder
		for l, err := range audit.Lines(dir, audit.Filter{Last: last}) {
			if err != nil {
				t.Fatal(err)
			}
			got.Write(l.Text)
			got.WriteByte('\n')
		}
		want := all
		if last > 0 {
			want = all[len(all)-last:]
		}
		if diff := cmp.Diff(strings.Join(want, "")+"\n", got.String()); diff != "" {
			t.Errorf("last %d (-want +got):\n%s", last, diff)
		}
	}
}

// FuzzDecode: a line from a hostile file never passes unless its hash fits,
// and what passes is what its bytes say.
func FuzzDecode(f *testing.F) {
	dir := f.TempDir()
	l, err := audit.Open(dir, audit.Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, h := range []string{"a.example", "\u202e", ""} {
		if err := l.Append(f.Context(), audit.Event{Kind: audit.NetDNS, Host: h}); err != nil {
			f.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	text := must(os.ReadFile(filepath.Join(dir, "audit-000001.jsonl")))
	for line := range bytes.Lines(text) {
		f.Add(bytes.TrimSuffix(line, []byte("\n")))
	}
	f.Add([]byte(`{"v":1,"hash":"` + strings.Repeat("0", 64) + `"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := audit.Decode(dir, line)
		if err != nil {
			return
		}
		if bytes.ContainsAny(line, "\n\r\x00\x1b\x7f") || !bytes.Contains(line, []byte(e.Hash)) {
			t.Errorf("accepted %q", line)
		}
	})
}

// FuzzVerify: any bytes in place of a segment end in a report or an error,
// and a changed segment never verifies beyond the change.
func FuzzVerify(f *testing.F) {
	dir := f.TempDir()
	l, err := audit.Open(dir, audit.Options{})
	if err != nil {
		f.Fatal(err)
	}
	for range 3 {
		if err := l.Append(f.Context(), audit.Event{Kind: audit.NetDNS, Host: "a.example"}); err != nil {
			f.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	good := must(os.ReadFile(filepath.Join(dir, "audit-000001.jsonl")))
	anchor := must(os.ReadFile(filepath.Join(dir, "anchor")))
	f.Add(good, anchor)
	f.Add(good[:len(good)-3], anchor)
	f.Add([]byte("\n\n"), []byte("{"))
	f.Fuzz(func(t *testing.T, text, anchor []byte) {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "audit-000001.jsonl"), text)
		put(t, filepath.Join(dir, "anchor"), anchor)
		r, err := audit.Verify(dir)
		if err == nil && r.Records > 0 && r.Head == "" {
			t.Errorf("report without a head: %+v", r)
		}
		for range audit.Read(dir, audit.Filter{}) {
		}
		if l, err := audit.Open(dir, audit.Options{}); err == nil {
			_ = l.Close()
			if _, err := audit.Verify(dir); err != nil {
				t.Errorf("opened what does not verify: %v", err)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	l, err := audit.Open(b.TempDir(), audit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	e := audit.Event{Session: "box", Kind: audit.NetConnect, Action: "connect", Host: "api.example.com", Port: 443, Verdict: "allow", Rule: "preset ai-apis"}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Append(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A path that is no UTF-8 is recorded as what it is, and not as that of another file.
func TestBytesThatAreNoText(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, audit.Options{})
	for name, want := range map[string]string{
		"s\xffb": `s\xffb`, "s\ufffdb": "s\ufffdb", "\xc3": `\xc3`, "a\xff\xfe\ufffd": `a\xff\xfe` + "\ufffd", "plain": "plain",
	} {
		e := audit.Event{Kind: audit.FileReview, Action: "clean", Resource: name}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		var last string
		for e, err := range audit.Back(dir, audit.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			last = e.Resource
			break
		}
		if last != want {
			t.Errorf("%q is recorded as %q, want %q", name, last, want)
		}
	}
}
