package watch

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/sandbox"
)

func cat7() (string, int) { return "cat", 7 }

// TestTable holds which uses are reported, how they are added up, and that what finds no
// room is counted.
func TestTable(t *testing.T) {
	about := sandbox.Watched{Kept: true, Rules: []sandbox.Judged{
		{Path: "/p/keys", Rule: "keys", Read: true, Write: true}, {Path: "/p/ro", Rule: "ro", Write: true},
		{Path: "/p/tool/", Rule: "tool", Exec: true},
	}}
	var got []string
	tab := newTable(about, func(e sandbox.FileEvent) {
		got = append(got, fmt.Sprintf("%s %s %s %t %s%d", e.Op, e.Path, e.Rule, e.Let, e.Unseen, e.More))
	})
	for _, s := range []seen{
		{use: reads, path: "/p/keys/a"}, {use: reads, path: "/p/keys/a"}, {use: reads, path: "/p/keysnot"}, {use: reads, path: "/p/ro"}, {use: writes, path: "/p/ro"},
		{use: executes, path: "/usr/bin/x"}, {use: executes, path: "/p/tool"}, {use: executes, path: "/p/tool/x"}, {use: executes, path: "/p/toolbox"}, {use: reads, path: "/p/tool/x"},
	} {
		tab.add(s, cat7)
	}
	tab.lost = 3
	tab.flush()
	tab.flush()
	want := []string{
		"open /p/keys/a keys false 0", "write /p/ro ro false 0", "execute /usr/bin/x  false 0", "execute /p/tool tool false 0",
		"execute /p/tool/x tool false 0", "execute /p/toolbox  false 0",
		"open /p/keys/a keys false 1", "several   false too many paths to be listed one by one3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	tab.about = sandbox.Watched{All: true}
	for i := range most + 5 {
		tab.add(seen{use: reads, path: fmt.Sprint("/", i)}, cat7)
	}
	tab.flush()
	if len(got) != most+1 || got[most] != "several   false too many paths to be listed one by one5" {
		t.Errorf("%d reports, the last %q", len(got), got[len(got)-1])
	}
}

// What is forbidden is reported whatever else was used before, by as many paths as there are
// rules; and what is kept is bounded however long it is.
func TestFlood(t *testing.T) {
	var got []sandbox.FileEvent
	about := sandbox.Watched{Kept: true, Rules: []sandbox.Judged{{Path: "/k", Rule: "k", Read: true}}}
	tab := newTable(about, func(e sandbox.FileEvent) { got = append(got, e) })
	long := strings.Repeat("w", 4000)
	for i := range 2 * most {
		tab.add(seen{use: executes, path: "/bin/x", words: long + strconv.Itoa(i)}, cat7)
	}
	if len(tab.known) > most || tab.bytes > mostBytes+3*len(long) {
		t.Errorf("%d are kept, %d bytes", len(tab.known), tab.bytes)
	}
	before := len(got)
	for i := range 3 {
		tab.add(seen{use: reads, path: "/k/" + strconv.Itoa(i)}, cat7)
	}
	if len(got) != before+1 || got[before].Path != "/k" || got[before].Rule != "k" || got[before].Why == "" {
		t.Errorf("%+v", got[before:])
	}
	tab.flush()
	if e := got[before+1]; e.Path != "/k" || e.More != 2 {
		t.Errorf("%+v", e)
	}
}

// Files of the box itself are left out where a rule is about a folder above them, and no others.
func TestOwn(t *testing.T) {
	for path, want := range map[string]bool{"/dev/null": false, "/proc/1/stat": false, "/run/media/me/disk/project/key": true, "/srv/x": true} {
		told := false
		tab := newTable(sandbox.Watched{Rules: []sandbox.Judged{{Path: "/", Read: true}}}, func(sandbox.FileEvent) { told = true })
		if tab.add(seen{use: reads, path: path}, cat7); told != want {
			t.Errorf("%s: %t", path, told)
		}
	}
}

// TestLetPass holds that what is not kept is reported as let pass.
func TestLetPass(t *testing.T) {
	var got []sandbox.FileEvent
	tab := newTable(sandbox.Watched{Rules: []sandbox.Judged{{Path: "/k", Read: true}}}, func(e sandbox.FileEvent) { got = append(got, e) })
	tab.add(seen{use: reads, path: "/k"}, cat7)
	if len(got) != 1 || !got[0].Let || got[0].Why == "" {
		t.Errorf("%+v", got)
	}
}

func TestInterpreter(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip("no /proc") // another system
	}
	defer self.Close()
	for text, want := range map[string]string{
		"#!/bin/sh\n": "/bin/sh", "#! /usr/bin/env python3\n": "/usr/bin/env", "#!/bin/sh\t-e": "/bin/sh", "#!": "", "": "", "text": "", "\x7fELF": "",
	} {
		if got := interpreterOf(bytes.NewReader([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, name := range []string{"/bin/sh", "/usr/bin/env"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if got := interpreterOf(f); got != "" && !bytes.HasPrefix([]byte(got), []byte("/lib")) {
			t.Errorf("%s is loaded by %q", name, got)
		}
		f.Close()
	}
}

func FuzzInterpreter(f *testing.F) {
	f.Add([]byte("#!/bin/sh\n"))
	f.Add(append([]byte("\x7fELF\x02\x01"), make([]byte, 120)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		if name := interpreterOf(bytes.NewReader(text)); len(name) > 4096 {
			t.Errorf("%d bytes", len(name))
		}
	})
}

// Of what a list speaks everything is reported that it does not permit, by one record where
// there is no more room.
func TestLists(t *testing.T) {
	var got []string
	about := sandbox.Watched{Kept: true, Permits: sandbox.Permits{Opens: true, Programs: true, List: []sandbox.Permit{
		{Path: "/p/a", Read: true}, {Path: "/p/b", Read: true, Write: true}, {Path: "/p/out", Dir: true, Read: true, Write: true}, {Path: "/bin/x", Exec: true},
	}}}
	tab := newTable(about, func(e sandbox.FileEvent) { got = append(got, fmt.Sprint(e.Op, " ", e.Path, " ", e.Why, " ", e.Let)) })
	for _, s := range []seen{
		{use: reads, path: "/p/a"}, {use: writes, path: "/p/a"}, {use: reads, path: "/p/b"}, {use: writes, path: "/p/b"}, {use: makes, path: "/p/b"},
		{use: writes, path: "/p/out/x"}, {use: makes, path: "/p/out/x"}, {use: makes, path: "/p/out"}, {use: makes, path: "/p/out/"}, {use: lists, path: "/p"},
		{use: reads, path: "/bin/x"}, {use: executes, path: "/bin/x"}, {use: executes, path: "/p/a"}, {use: reads, path: "/p/ab"}, {use: reads, path: "/proc/1/stat"},
		{use: executes, path: "/.cloister/bin/hostexec"},
	} {
		tab.add(s, cat7)
	}
	no := " no statement permits it false"
	want := []string{"write /p/a" + no, "make /p/b" + no, "make /p/out" + no, "execute /bin/x  false", "execute /p/a" + no, "open /p/ab" + no, "execute /.cloister/bin/hostexec  false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	for i := range most + 3 {
		tab.add(seen{use: reads, path: fmt.Sprint("/q/", i)}, cat7)
	}
	if last := got[len(got)-1]; last != "open /"+no || len(got) > most+1 {
		t.Errorf("%d reports, the last %q", len(got), last)
	}
}
