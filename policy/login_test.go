package policy_test

import (
	"strings"
	"testing"

	"cloister/internal/reading"
	"cloister/internal/source"
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
			r.Login = &reading.Login{Protocol: "postgres", User: tt.user, Database: tt.database}
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
		r.Login = &reading.Login{Protocol: "postgres", User: "evil", Database: "shop"}
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
	r.Login = &reading.Login{Protocol: "postgres", User: "evil", Database: "shop"}
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
		r.Domain, r.Origin = "a.test", source.Position{File: "config.yaml", Line: 7}
		if _, err := policy.Compile(policy.Input{Rules: []policy.Rule{r}}); err == nil || !strings.Contains(err.Error(), msg) || !strings.HasPrefix(err.Error(), "config.yaml:7") {
			t.Errorf("want %q: %v", msg, err)
		}
	}
}

func TestSSHLogins(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Allow, Domain: "git.test", Protocol: "ssh", Users: []string{"git"}, Repositories: []string{"acme/**"}, Git: []string{"fetch"}, Identity: "agent"},
		{Effect: policy.Allow, Domain: "git.test", Protocol: "ssh", Users: []string{"git"}, Repositories: []string{"acme/tool"}, Identity: "~/.ssh/push"},
		{Effect: policy.Deny, Domain: "git.test", Protocol: "ssh", Repositories: []string{"acme/secret"}},
		{Effect: policy.Allow, Domain: "plain.test", Protocol: "ssh", Users: []string{"ada"}, Repositories: []string{"/srv/git/*"}},
		{Effect: policy.Allow, Domain: "plain.test", Protocol: "ssh", Users: []string{"ada"}, Commands: []string{"uptime", "make *", "shell", "subsystem sftp"}},
		{Effect: policy.Allow, Domain: "open.test", Ports: []uint16{22}},
		{Effect: policy.Deny, Domain: "open.test", Protocol: "ssh", Users: []string{"root"}},
		{Effect: policy.Deny, Domain: "open.test", Protocol: "ssh", Git: []string{"push"}},
		{Effect: policy.Allow, Domain: "tunnel.test", Ports: []uint16{22}},
	}})
	if !s.Logins("ssh") || s.Logins("postgres") {
		t.Error("Logins")
	}
	for _, tt := range []struct {
		dest, user, command, repository string
		push                            bool
		want                            policy.Effect
		by, identity                    string
	}{
		{dest: "git.test:22", want: policy.Allow},
		{dest: "git.test:22", user: "git", want: policy.Allow},
		{dest: "git.test:22", user: "root", by: "unlisted"},
		{dest: "git.test:22", user: "git", command: "x", repository: "acme/lib.git", want: policy.Allow, identity: "agent"},
		{dest: "git.test:22", user: "git", command: "x", repository: "/acme/lib", want: policy.Allow, identity: "agent"},
		{dest: "git.test:22", user: "git", command: "x", repository: "acme/lib.git", push: true, by: "unlisted"},
		{dest: "git.test:22", user: "git", command: "x", repository: "acme/tool.git/", push: true, want: policy.Allow, identity: "~/.ssh/push"},
		{dest: "git.test:22", user: "git", command: "x", repository: "ACME/lib", by: "unlisted"},
		{dest: "git.test:22", user: "git", command: "x", repository: "acme/secret.git", by: "deny git.test"},
		{dest: "git.test:22", user: "git", command: "x", repository: "/ACME/Secret", by: "deny git.test"},
		{dest: "git.test:22", user: "git", command: "x", repository: "other/lib", by: "unlisted"},
		{dest: "git.test:22", user: "git", command: "shell", by: "deny git.test"}, // it could reach the repository
		{dest: "plain.test:22", user: "ada", command: "x", repository: "/srv/git/a.git", want: policy.Allow},
		{dest: "plain.test:22", user: "ada", command: "x", repository: "srv/git/a.git", by: "unlisted"},
		{dest: "plain.test:22", user: "ada", command: "x", repository: "/srv/git/a/b", by: "unlisted"},
		{dest: "plain.test:22", user: "ada", command: "uptime", want: policy.Allow},
		{dest: "plain.test:22", user: "ada", command: "uptime -p", by: "unlisted"},
		{dest: "plain.test:22", user: "ada", command: "make all", want: policy.Allow},
		{dest: "plain.test:22", user: "ada", command: "make all; id", by: "unlisted"},
		{dest: "plain.test:22", user: "ada", command: "make $(id)", by: "unlisted"},
		{dest: "plain.test:22", user: "ada", command: "make all\nid", by: "unlisted"},
		{dest: "plain.test:22", user: "ada", command: "shell", want: policy.Allow},
		{dest: "plain.test:22", user: "ada", command: "subsystem sftp", want: policy.Allow},
		{dest: "open.test:22", user: "root", by: "deny open.test"},
		{dest: "open.test:22", user: "ada", want: policy.Allow, by: "allow open.test"},
		{dest: "open.test:22", user: "ada", command: "x", repository: "a", want: policy.Allow},
		{dest: "open.test:22", user: "ada", command: "x", repository: "a", push: true, by: "deny open.test"},
		{dest: "open.test:22", user: "ada", command: "id", by: "deny open.test"},
	} {
		r := connect(t, tt.dest)
		if tt.user != "" {
			r.Login = &reading.Login{Protocol: "ssh", User: tt.user, Command: tt.command, Repository: tt.repository, Push: tt.push}
		}
		v := policy.Decide(s, r)
		if v.Effect != tt.want || !strings.Contains(v.Rule, tt.by) || tt.identity != "" && v.Identity != tt.identity {
			t.Errorf("%+v: %s by %q as %q: %s", tt, v.Effect, v.Rule, v.Identity, v.Reason)
		}
		if v.Effect == policy.Allow && v.Protocol != "ssh" {
			t.Errorf("%+v: speaks %q", tt, v.Protocol)
		}
		if v.Effect != policy.Allow && (v.Reason == "" || len(v.Hints) == 0) {
			t.Errorf("refused without words: %+v", v)
		}
	}
	if v := policy.Decide(s, connect(t, "tunnel.test:22")); v.Effect != policy.Allow || v.Protocol != "" {
		t.Errorf("a host that no rule reads: %+v", v)
	}
	r := connect(t, "git.test:22")
	r.Login = &reading.Login{Protocol: "ssh", User: "git", Command: "git-receive-pack 'other/lib'", Repository: "other/lib", Push: true}
	if want := `in config.yaml: proxy: {allow: [{domain: git.test, ports: [22], protocol: ssh, users: ["git"], repositories: ["other/lib"], git: [push], identity: "agent"}]}`; policy.Decide(s, r).Hints[0] != want {
		t.Errorf("hint %q", policy.Decide(s, r).Hints)
	}
	// The words keep what the rule says of the server and of who signs.
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICq2OY8jOePyRqHWpUUgpXU6dD9Q7fpVey0MWl3WTsOm"
	s = compile(t, policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "git.test", Protocol: "ssh", Commands: []string{"date"}, Identity: "agent", Use: "ask", HostKeys: []string{key}}}})
	r.Login = &reading.Login{Protocol: "ssh", User: "git", Command: "id"}
	if want := `commands: ["id"], identity: "agent", use: ask, host_keys: ["` + key + `"]}]}`; !strings.HasSuffix(policy.Decide(s, r).Hints[0], want) {
		t.Errorf("hint %q", policy.Decide(s, r).Hints)
	}
}

func TestBadSSHLogins(t *testing.T) {
	for msg, r := range map[string]policy.Rule{
		"belong to a protocol":          {Effect: policy.Allow, Identity: "agent"},
		"are SSH's":                     {Effect: policy.Allow, Protocol: "postgres", Git: []string{"fetch"}},
		"SSH knows no databases":        {Effect: policy.Allow, Protocol: "ssh", Databases: []string{"a"}},
		"the rule names none":           {Effect: policy.Allow, Protocol: "ssh", Use: "ask"},
		"that is denied signs nothing":  {Effect: policy.Allow, Protocol: "ssh", Identity: "agent", Use: "deny"},
		"nothing that git does":         {Effect: policy.Allow, Protocol: "ssh", Git: []string{"clone"}},
		"not of both":                   {Effect: policy.Allow, Protocol: "ssh", Git: []string{"push"}, Commands: []string{"date"}},
		"got round by another spelling": {Effect: policy.Deny, Protocol: "ssh", Commands: []string{"rm *"}},
		"how an allowed login goes on":  {Effect: policy.Deny, Protocol: "ssh", Identity: "agent"},
		"dot segments are resolved":     {Effect: policy.Allow, Protocol: "ssh", Repositories: []string{"a/../b"}},
		"an empty name":                 {Effect: policy.Allow, Protocol: "ssh", Commands: []string{""}},
		"an empty list":                 {Effect: policy.Allow, Protocol: "ssh", Repositories: []string{}},
		"nothing that logs in":          {Effect: policy.Allow, Protocol: "ssh", Identity: "id_ed25519"},
		"is no host key":                {Effect: policy.Allow, Protocol: "ssh", HostKeys: []string{"SHA256:abc"}},
	} {
		r.Domain, r.Origin = "a.test", source.Position{File: "config.yaml", Line: 7}
		if _, err := policy.Compile(policy.Input{Rules: []policy.Rule{r}}); err == nil || !strings.Contains(err.Error(), msg) || !strings.HasPrefix(err.Error(), "config.yaml:7") {
			t.Errorf("want %q: %v", msg, err)
		}
	}
}
