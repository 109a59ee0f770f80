package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/config"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDecisionsAreReadAsTheyWereWritten(t *testing.T) {
	dir := t.TempDir()
	want := config.Decisions{
		Version: 1, Project: "/home/p/my \"project\" ü", File: config.DecisionsFile(dir, "/home/p/my \"project\" ü"),
		Decisions: []config.Decision{
			{
				ID: "0a1b2c3d", Answer: config.AnsweredAllow, Kind: config.DecisionNetwork, Subject: "*.example.net:443",
				At: time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC), By: "uid 1000 via cli", Why: "a: b # c\n- d", Shown: "\x1b[31m' \u202e", Session: "s",
			},
			{ID: "1", Answer: config.AnsweredDeny, Kind: config.DecisionNetwork, Subject: "[2001:db8::1]:22", At: time.Unix(0, 0).UTC()},
		},
	}
	if err := os.MkdirAll(filepath.Dir(want.File), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want.File, want.Format(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := config.LoadDecisions(dir)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff(want, got[0], cmpopts.IgnoreFields(config.Decision{}, "Place")); diff != "" {
		t.Error(diff)
	}
	if p := got[0].Decisions[1].Place; p.Line == 0 || p.File != want.File {
		t.Errorf("place %+v", p)
	}
	if strings.ContainsAny(string(want.Format()), "\x1b\u202e") {
		t.Error("the file holds what a terminal obeys")
	}
	less, had := got[0].Without("1")
	if _, again := less.Without("1"); !had || again || len(less.Decisions) != 1 {
		t.Errorf("without one: %+v", less)
	}
}

func TestDecisionsThatAreWrong(t *testing.T) {
	good := `{id: a, answer: allow, kind: network, subject: "a.example:443", at: "2026-11-21T17:00:00Z"}`
	for _, c := range []struct{ name, text, want string }{
		{"no YAML", "decisions: [", "not YAML"},
		{"another version", "version: 2", "reads version 1, not 2"},
		{"an unknown key", "decision: []", `unknown key "decision"`},
		{"no project", "decisions: [" + good + "]", "is no absolute path"},
		{"no ID", "project: /p\ndecisions: [{answer: allow, kind: network, subject: \"a:1\"}]", `f:2:13: decisions[0]: id ""`},
		{"an ID twice", "project: /p\ndecisions: [" + good + ", " + good + "]", `decisions[1]: id "a"`},
		{"no answer", "project: /p\ndecisions: [{id: a, kind: network, subject: \"a:1\"}]", "answer is missing"},
		{"another answer", "project: /p\ndecisions: [{id: a, answer: alow, kind: network, subject: \"a:1\"}]", "alow"},
		{"no port", "project: /p\ndecisions: [{id: a, answer: allow, kind: network, subject: a}]", "subject: "},
		{"too broad", "project: /p\ndecisions: [{id: a, answer: allow, kind: network, subject: \"*.com:443\"}]", "subject: "},
		{"no time", "project: /p\ndecisions: [{id: a, answer: allow, kind: network, subject: \"a:1\", at: noon}]", "decisions[0].at"},
	} {
		_, err := config.ParseDecisions("f", []byte(c.text), true)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := config.ParseDecisions("f", []byte("project: /p\ndecisions: ["+good+"]"), false); err == nil {
		t.Error("answers for one project passed for those of all")
	}
}

func FuzzParseDecisions(f *testing.F) {
	f.Add("project: /p\ndecisions: [{id: a, answer: allow, kind: network, subject: \"a.example:443\"}]")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := config.ParseDecisions("f", []byte(text), true)
		if err != nil {
			return
		}
		again, err := config.ParseDecisions("f", d.Format(), true)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, d.Format())
		}
		if len(again.Decisions) != len(d.Decisions) {
			t.Fatalf("%d answers became %d", len(d.Decisions), len(again.Decisions))
		}
	})
}
