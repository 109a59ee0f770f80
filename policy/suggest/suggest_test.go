package suggest_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/internal/authority"
	"cloister/policy"
	"cloister/policy/suggest"

	"github.com/google/go-cmp/cmp"
)

func TestRules(t *testing.T) {
	in := policy.Input{
		Rules: []policy.Rule{
			{Effect: policy.Allow, Domain: "known.example"},
			{Effect: policy.Allow, Domain: "api.example", Methods: []string{"GET"}, Paths: []string{"/open/**"}},
			{Effect: policy.Ask, Domain: "asked.example"},
			{Effect: policy.Deny, Domain: "bad.example"},
		},
		Unlisted: policy.Deny,
		Mode:     policy.Record,
	}
	for _, test := range []struct {
		name       string
		seen       string // one a line: HOST:PORT, or METHOD HOST:PORT PATH
		want, left string
	}{
		{"nothing", "", "", ""},
		{"what is allowed already", "known.example:443\nGET api.example:443 /open/a", "", ""},
		{"ports that were seen", "new.example:8443\nnew.example:443\nnew.example:443", "new.example [443 8443] [] [] 3", ""},
		{"requests to a new host need no rules of their own", "new.example:80\nPOST new.example:80 /x", "new.example [80] [] [] 1", ""},
		{"requests where requests are judged", "GET api.example:443 /shut\nGET api.example:443 /shut/b\nPOST api.example:443 /open/a\nGET api.example:443 /open/a",
			"api.example [443] [GET] [/shut /shut/b] 2\napi.example [443] [POST] [/open/a] 1", ""},
		{"an address", "192.0.2.7:5432", "192.0.2.7/32 [5432] [] [] 1", ""},
		{"what stays refused", "bad.example:443\nasked.example:443\nnew.example:443", "new.example [443] [] [] 1", "bad.example:443 deny\nasked.example:443 ask"},
		{"a host of which all requests stay refused", "new.example:443\nbad.example:80\nGET bad.example:80 /", "new.example [443] [] [] 1", "bad.example:80 deny\nbad.example:80 deny"},
		{"a star is itself", "GET api.example:443 /shut/*\nGET api.example:443 /shut/**/b", `api.example [443] [GET] [/shut/\* /shut/\*\*/b] 2`, ""},
		{"a path of two readings", "GET api.example:443 /shut;a/b", "", "api.example:443 deny"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen []suggest.Seen
			for line := range strings.Lines(test.seen) {
				words := strings.Fields(line)
				s := suggest.Seen{Count: 1}
				if len(words) == 3 {
					s.Method, s.Path, words = words[0], words[2], words[1:]
				}
				var err error
				if s.To, err = authority.ParseHostPort(words[0], 443); err != nil {
					t.Fatal(err)
				}
				seen = append(seen, s)
			}
			rules, left, err := suggest.Rules(in, seen)
			if err != nil {
				t.Fatal(err)
			}
			var got, over []string
			for _, r := range rules {
				got = append(got, fmt.Sprint(r.Domain+r.CIDR, r.Ports, r.Methods, r.Paths, r.Count))
			}
			for _, l := range left {
				over = append(over, fmt.Sprintf("%s %s", l.To, l.Effect))
			}
			if d := cmp.Diff(strings.ReplaceAll(test.want, " [", "["), strings.ReplaceAll(strings.Join(got, "\n"), " [", "[")); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(test.left, strings.Join(over, "\n")); d != "" {
				t.Error(d)
			}
		})
	}
}

// What is suggested allows what was seen and nothing beside it, also of names with
// stars, and also of more paths than one rule names.
func TestRulesAreExact(t *testing.T) {
	in := policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "api.example", Methods: []string{"GET"}, Paths: []string{"/open"}}}, Unlisted: policy.Deny}
	to, err := authority.ParseHostPort("api.example:443", 443)
	if err != nil {
		t.Fatal(err)
	}
	seen := []suggest.Seen{{To: to, Method: "PUT", Path: "/a*", Count: 1}, {To: to, Method: "PUT", Path: "/%2a/b", Count: 1}}
	for i := range 250 {
		seen = append(seen, suggest.Seen{To: to, Method: "PUT", Path: fmt.Sprintf("/p%d", i), Count: 1})
	}
	rules, left, err := suggest.Rules(in, seen)
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) != 1 || len(left) != 52 || !strings.Contains(left[0].Reason, "more than 200 paths") {
		t.Fatalf("%d rules, %d left: %v", len(rules), len(left), left[:1])
	}
	in.Rules = append(in.Rules, rules[0].Rule)
	s, err := policy.Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]policy.Effect{
		"/a*": policy.Allow, "/*/b": policy.Allow, "/p7": policy.Allow, "/ab": policy.Deny, "/a": policy.Deny, "/x/b": policy.Deny, "/p249": policy.Deny, "/": policy.Deny,
	} {
		q := policy.HTTP{Method: "PUT"}
		q.Target(path)
		if v := policy.Decide(s, policy.Request{Action: policy.HTTPRequest, Authority: to, HTTP: q}); v.Effect != want {
			t.Errorf("%s: %v, want %v", path, v.Effect, want)
		}
	}
}

func TestMerge(t *testing.T) {
	rule := func(domain string, ports []uint16, methods, paths []string) suggest.Rule {
		return suggest.Rule{Rule: policy.Rule{Domain: domain, Ports: ports, Methods: methods, Paths: paths}, Count: 2}
	}
	var got []string
	for _, r := range suggest.Merge([]suggest.Rule{
		rule("b.example", []uint16{443}, nil, nil),
		rule("a.example", []uint16{443}, []string{"GET"}, []string{"/x"}),
		rule("b.example", []uint16{80, 443}, nil, nil),
		rule("a.example", []uint16{443}, []string{"GET"}, []string{"/y", "/x"}),
		rule("a.example", []uint16{443}, []string{"GET"}, nil), // any path: it is not made narrower
		rule("a.example", []uint16{80}, []string{"GET"}, []string{"/z"}),
	}) {
		got = append(got, fmt.Sprint(r.Domain, r.Ports, r.Methods, r.Paths, r.Count))
	}
	want := []string{
		"a.example [443] [GET] [/x /y] 4", "a.example [443] [GET] [] 2", "a.example [80] [GET] [/z] 2", "b.example [80 443] [] [] 4",
	}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], " [", "[")
		if i < len(got) {
			got[i] = strings.ReplaceAll(got[i], " [", "[")
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
