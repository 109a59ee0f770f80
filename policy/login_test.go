package policy_test

import (
	"strings"
	"testing"

	"cloister/policy"
)

func TestLogins(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Allow, Domain: "db.test", Protocol: "postgres", Users: []string{"app", "app_*"}, Databases: []string{"shop"}},
		{Effect: policy.Allow, Domain: "db.test", Protocol: "postgres", Users: []string{"reader"}},
		{Effect: policy.Deny, Domain: "db.test", Protocol: "postgres", Databases: []string{"postgres"}},
		{Effect: policy.Allow, Domain: "*.wide.test", Ports: []uint16{5432}},
		{Effect: policy.Allow, Domain: "one.wide.test", Protocol: "postgres", Users: []string{"app"}},
		{Effect: policy.Allow, Domain: "open.test", Ports: []uint16{5432}},
		{Effect: policy.Deny, Domain: "open.test", Protocol: "postgres", Users: []string{"postgres"}},
		{Effect: policy.Allow, Domain: "other.test", Protocol: "postgres", Ports: []uint16{6432}},
	}})
	for _, tt := range []struct {
		dest, user, database string
		want                 policy.Effect
		protocol             string
		by                   string
	}{
		{dest: "db.test:5432", want: policy.Allow, protocol: "postgres"},
		{dest: "db.test:5432", user: "app", database: "shop", want: policy.Allow, protocol: "postgres", by: "user app,app_* database shop"},
		{dest: "db.test:5432", user: "app_7", database: "shop", want: policy.Allow, protocol: "postgres"},
		{dest: "db.test:5432", user: "app", database: "other", protocol: "postgres", by: "unlisted"},
		{dest: "db.test:5432", user: "reader", database: "any", want: policy.Allow, protocol: "postgres", by: "user reader"},
		{dest: "db.test:5432", user: "reader", database: "postgres", protocol: "postgres", by: "deny db.test"},
		{dest: "db.test:5432", user: "APP", database: "shop", protocol: "postgres", by: "unlisted"},
		{dest: "db.test", by: "unlisted"},
		{dest: "two.wide.test:5432", want: policy.Allow},
		{dest: "one.wide.test:5432", want: policy.Allow, protocol: "postgres"},
		{dest: "one.wide.test:5432", user: "root", database: "x", protocol: "postgres", by: "unlisted"},
		{dest: "one.wide.test:5432", user: "app", database: "x", want: policy.Allow, protocol: "postgres"},
		{dest: "open.test:5432", want: policy.Allow, protocol: "postgres", by: "allow open.test"},
		{dest: "open.test:5432", user: "postgres", database: "x", protocol: "postgres", by: "deny open.test"},
		{dest: "open.test:5432", user: "app", database: "x", want: policy.Allow, protocol: "postgres", by: "allow open.test"},
		{dest: "other.test:6432", user: "app", database: "x", want: policy.Allow, protocol: "postgres"},
		{dest: "other.test:5432"},
	} {
		r := connect(t, tt.dest)
		if tt.user != "" {
			r.Login = &policy.Login{Protocol: "postgres", User: tt.user, Database: tt.database}
		}
		v := policy.Decide(s, r)
		protocol := v.Protocol
		if v.Effect == policy.Deny && tt.user == "" {
			protocol = tt.protocol // nobody asks for it
		}
		if v.Effect != tt.want || protocol != tt.protocol || !strings.Contains(v.Rule, tt.by) {
			t.Errorf("%s %s/%s: %s by %q, speaks %q: %s", tt.dest, tt.user, tt.database, v.Effect, v.Rule, v.Protocol, v.Reason)
		}
		if v.Effect != policy.Allow && (v.Reason == "" || len(v.Hints) == 0) {
			t.Errorf("refused without words: %+v", v)
		}
	}
	v := policy.Decide(s, func() policy.Request {
		r := connect(t, "db.test:5432")
		r.Login = &policy.Login{Protocol: "postgres", User: "evil", Database: "shop"}
		return r
	}())
	if want := `in config.yaml: proxy: {allow: [{domain: db.test, ports: [5432], protocol: postgres, users: ["evil"], databases: ["shop"]}]}`; v.Hints[0] != want {
		t.Errorf("hint %q", v.Hints)
	}
	// A person's word for the session lets every login through, but for a deny.
	with, err := s.With([]policy.Rule{{Effect: policy.Allow, Domain: "db.test", Ports: []uint16{5432}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := connect(t, "db.test:5432")
	r.Login = &policy.Login{Protocol: "postgres", User: "evil", Database: "shop"}
	if v := policy.Decide(with, r); v.Effect != policy.Allow {
		t.Errorf("--allow: %+v", v)
	}
	r.Login.Database = "postgres"
	if v := policy.Decide(with, r); v.Effect != policy.Deny {
		t.Errorf("--allow against a deny: %+v", v)
	}
}

func TestBadLogins(t *testing.T) {
	for msg, r := range map[string]policy.Rule{
		"unknown protocol":     {Effect: policy.Allow, Protocol: "mysql"},
		"belong to a protocol": {Effect: policy.Allow, Users: []string{"a"}},
		"nobody is asked":      {Effect: policy.Ask, Protocol: "postgres"},
		"never read":           {Effect: policy.Allow, Protocol: "postgres", Tunnel: true},
		"not of both":          {Effect: policy.Allow, Protocol: "postgres", Methods: []string{"GET"}},
		"an empty name":        {Effect: policy.Allow, Protocol: "postgres", Users: []string{""}},
	} {
		r.Domain, r.Origin = "a.test", policy.Origin{File: "config.yaml", Line: 7}
		if _, err := policy.Compile(policy.Input{Rules: []policy.Rule{r}}); err == nil || !strings.Contains(err.Error(), msg) || !strings.HasPrefix(err.Error(), "config.yaml:7") {
			t.Errorf("want %q: %v", msg, err)
		}
	}
}
