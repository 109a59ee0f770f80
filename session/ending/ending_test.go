package ending_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/session"
	"cloister/session/ending"
)

func refusal(host string, port, count int) api.Refusal {
	return api.Refusal{Host: host, Port: port, Count: count, Reason: "no rule names this destination", Hints: []string{
		"cloister run --allow " + host + " -- CMD", "or for good, in config.yaml: proxy: {allow: [{domain: " + host + "}]}",
	}}
}

func TestLines(t *testing.T) {
	again := func(hint string) string { return strings.Replace(hint, " -- CMD", " -- make", 1) }
	quiet := session.Result{Name: "app", Duration: 90 * time.Second}
	if got := ending.Lines(quiet, ending.Options{Again: again}); len(got) != 0 {
		t.Errorf("of a run in which nothing happened: %q", got)
	}
	busy := quiet
	busy.Summary = api.SessionSummary{Allowed: 14, Hosts: []api.HostCount{{Host: "a.example", Count: 3}, {Host: "b.example", Count: 11}}, More: 2}
	other := refusal("c.example", 443, 1)
	other.Hints = []string{"in config.yaml: proxy: {allow: [{domain: c.example, methods: [GET]}]}"}
	busy.Summary.Refusals = []api.Refusal{refusal("x.example", 0, 1), other, refusal("y.example", 443, 20), refusal("x.example", 443, 1)}
	busy.Autorun = []string{".envrc"}
	busy.Summary.Brought, busy.Summary.MoreBrought = []string{"cloister/app:.husky/pre-commit", "cloister/app:.vscode/\x1btasks.json"}, 2
	busy.Summary.Unauthorized = []api.SecretRefused{{Secret: "KEY", Host: "b.example"}}
	want := []string{
		"cloister: app is over after 1m30s: 14 connections and requests allowed: b.example 11, a.example 3",
		"cloister: refused x.example: no rule names this destination",
		"cloister: refused c.example:443: no rule names this destination",
		"hint: in config.yaml: proxy: {allow: [{domain: c.example, methods: [GET]}]}",
		"cloister: refused y.example:443 (20 times): no rule names this destination",
		"cloister: refused x.example:443: no rule names this destination",
		"hint: cloister run --allow x.example --allow y.example -- make",
		"hint: or for good, in config.yaml: proxy: {allow: [{domain: x.example}, {domain: y.example}]}",
		"cloister: b.example refuses the secret KEY: 401 Unauthorized",
		"hint: where it is no longer valid, store another value: cloister secret set KEY",
		"cloister: and 2 more destinations: cloister audit tail --session app --verdict deny",
		"cloister: files changed that programs of this host may run; look before you do:",
		"  .envrc",
		"hint: cloister review shows each, and keeps, reverts or trusts it",
		"cloister: files came back that programs of this host may run once they are checked out; look before you do:",
		"  cloister/app:.husky/pre-commit",
		`  cloister/app:.vscode/\x1btasks.json`,
		"  and 2 more",
		"hint: git diff HEAD...cloister/app",
	}
	if got := ending.Lines(busy, ending.Options{Whole: true, Again: again}); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestManyHosts(t *testing.T) {
	res := session.Result{Name: "app", Duration: 40 * time.Millisecond, Summary: api.SessionSummary{Allowed: 7}}
	for _, h := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		res.Summary.Hosts = append(res.Summary.Hosts, api.HostCount{Host: h, Count: 1})
	}
	got := ending.Lines(res, ending.Options{Whole: true})
	if want := "cloister: app is over after 40ms: 7 connections and requests allowed: a 1, b 1, c 1, d 1, e 1, 2 more hosts"; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	res.Summary = api.SessionSummary{}
	if got := ending.Lines(res, ending.Options{Whole: true}); len(got) != 1 || !strings.HasSuffix(got[0], "nothing left it") {
		t.Errorf("%q", got)
	}
}
