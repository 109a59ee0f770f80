package learned_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"cloister/audit"
	"cloister/policy"
	"cloister/policyset/learned"
)

// used is what lines "ACTION PATH" come to.
func used(lines string) *learned.Used {
	u := &learned.Used{}
	for line := range strings.Lines(lines) {
		action, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		e := audit.Event{Kind: audit.FileOpen, Action: action, Resource: at, Verdict: "allow"}
		if action == "execute" {
			e.Kind = audit.Exec
		}
		if action == "denied" {
			e.Kind, e.Verdict = audit.FileDenied, "deny"
		}
		u.Add(audit.Line{Event: e})
	}
	return u
}

// statements is a file of Cedar as what it comes to; it must be good.
func statements(t *testing.T, text string) []policy.Statement {
	t.Helper()
	list, err := policy.FileStatements([]policy.CedarFile{{Name: "f", Text: []byte(text)}})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return list
}

func TestPolicy(t *testing.T) {
	for name, tc := range map[string]struct{ in, used, want string }{
		"nothing":                     {"", "", ""},
		"each use has its list":       {"", "open /p/a\nwrite /p/b\nexecute /usr/bin/x\nlist /p", "read File /p/a; write File /p/b; execute File /usr/bin/x"},
		"a name that is made":         {"", "make /p/out/new\nopen /p/out/old\nopen /p/a", "read File /p/a; write Dir /p/out"},
		"a file without a name":       {"", "make /p/out/", "write Dir /p/out"},
		"a program in such a folder":  {"", "make /tmp/b1\nexecute /tmp/b1/x.test", "write Dir /tmp; execute Dir /tmp"},
		"one folder in the other":     {"", "make /p/out/a/b\nmake /p/out/c", "write Dir /p/out"},
		"a cache by content":          {"", "make /h/cache/0a/0abc\nmake /h/cache/f1/f1de", "write Dir /h/cache"},
		"one folder of it":            {"", "make /h/cache/0a/0abc", "write Dir /h/cache/0a"},
		"other folders stay apart":    {"", "make /p/dist/a\nmake /p/build/b", "write Dir /p/build; write Dir /p/dist"},
		"the box's own":               {"", "open /proc/1/stat\nwrite /dev/null\nopen /.cloister/x", ""},
		"what was refused":            {"", "denied /p/a", ""},
		"what cannot be named":        {"", "open /p/*\nopen relative", ""},
		"what is permitted":           {`permit (principal, action == Action::"FileOpenReadOnly", resource == File::"/p/a");`, "open /p/a\nopen /p/b", "read File /p/b"},
		"what is permitted to read":   {`permit (principal, action == Action::"FileOpenReadOnly", resource in Dir::"/p");`, "open /p/a\nwrite /p/a", "write File /p/a"},
		"a file is no folder":         {`permit (principal, action == Action::"FileOpen", resource == File::"/p");`, "make /p/a", "write Dir /p"},
		"a name in /":                 {"", "make /x\nopen /p/a\nexecute /usr/bin/x", "read File /p/a; execute File /usr/bin/x"},
		"a file without a name in /":  {"", "make /\nopen /p/a", "read File /p/a"},
		"no room in the recorder":     {"", "open /\nmake /\nwrite /\nexecute /\nopen /p/a", "read File /p/a"},
		"a cache by content at /":     {"", "make /0a/x\nmake /f1/x", "write Dir /0a; write Dir /f1"},
		"a name with Cedar's letters": {"", `open /p/[a]"\b`, `read File /p/[a]"\b`},
	} {
		t.Run(name, func(t *testing.T) {
			u := used(tc.used)
			p := u.Policy(statements(t, tc.in))
			var got []string
			for _, l := range []struct {
				word string
				list []learned.Entry
			}{{"read", p.Read}, {"write", p.Write}, {"execute", p.Programs}} {
				for _, e := range l.list {
					got = append(got, l.word+" "+map[bool]string{true: "Dir ", false: "File "}[e.Dir]+e.Path)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, "; ")); diff != "" {
				t.Error(diff)
			}
			// With it nothing more is to be permitted.
			if again := u.Policy(statements(t, tc.in+p.Cedar())); again.Any() {
				t.Errorf("with the policy there is more: %+v", again)
			}
		})
	}
}

// Of many files of one folder it is named instead, of a system's earlier; a folder at the top,
// and a person's own, never is.
func TestGrouped(t *testing.T) {
	for dir, want := range map[string]struct{ least, most int }{
		"/usr/lib/x": {8, 8}, "/p/q/node_modules/x": {200, 200}, "/p": {300, 300}, "/home": {300, 300},
	} {
		var lines strings.Builder
		for i := range 300 {
			fmt.Fprintf(&lines, "open %s/%d\n", dir, i)
			got := len(used(lines.String()).Policy(nil).Read)
			if i < want.least && got != i+1 || i >= want.most && got != 1 {
				t.Fatalf("%d files of %s are %d entries", i+1, dir, got)
			}
		}
	}
}

func TestNotes(t *testing.T) {
	u := used("")
	if n := u.Notes(u.Policy(nil)); len(n) != 1 || !strings.Contains(n[0], "--mode record") {
		t.Errorf("%q", n)
	}
	u.Add(audit.Line{Event: audit.Event{Kind: audit.FileOpen, Action: "several", Verdict: "allow", Suppressed: 7}})
	u.Add(audit.Line{Event: audit.Event{Kind: audit.FileOpen, Action: "open", Resource: "/p/a\ufffd", Verdict: "allow"}})
	u.Add(audit.Line{Event: audit.Event{Kind: audit.FileOpen, Action: "make", Resource: "/tmp/a", Verdict: "allow"}})
	u.Add(audit.Line{Event: audit.Event{Kind: audit.Exec, Action: "execute", Resource: "/tmp/a", Verdict: "allow"}})
	text := strings.Join(u.Notes(u.Policy(nil)), "\n")
	for _, want := range []string{"8 uses of files were counted", `what may be written in "/tmp" may be executed`, `names came or went in "/tmp"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

// A name is written so that nothing acts on it: no other statement, no other line, no letter that
// a terminal or an editor obeys; and it is the same name when it is read.
func TestNamesThatLead(t *testing.T) {
	for _, name := range []string{
		"/p/a\"] }; permit (principal, action, resource); //", "/p/a\n] };\npermit (principal, action, resource);", "/p/\x1b]0;x\x07", "/p/\u009b31m",
		"/p/\u202egro.live", "/p/\u2028permit", "/p/\u200b", "/p/\ufeff", "/p/\r// x", "/p/\\u{22}", "/p/*/ */", "/p/\xff",
	} {
		u := &learned.Used{}
		for _, action := range []string{"open", "make"} {
			u.Add(audit.Line{Event: audit.Event{Kind: audit.FileOpen, Action: action, Resource: name + "/x", Verdict: "allow"}})
		}
		u.Add(audit.Line{Event: audit.Event{Kind: audit.Exec, Action: "execute", Resource: name + "/x", Verdict: "allow"}})
		p := u.Policy(nil)
		text := p.Cedar()
		for _, all := range append(u.Notes(p), text) {
			for _, r := range all {
				if !unicode.IsPrint(r) && r != '\n' {
					t.Errorf("%q: %q in %q", name, r, all)
				}
			}
		}
		for _, st := range statements(t, text) {
			for _, one := range st.Permitted {
				if len(st.Permitted) != 1 || one.Path != path.Clean(name) || !one.Dir {
					t.Errorf("%q became %+v", name, st.Permitted)
				}
			}
		}
	}
}
