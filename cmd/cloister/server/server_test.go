package server

import (
	"strings"
	"testing"

	"cloister/cmd/cloister/cli"
	"cloister/internal/hint"
	"cloister/serve"
)

// Keys are sent in the clear to no address but the loopback's, and no port is opened for wrong words.
func TestWhereItListens(t *testing.T) {
	for _, c := range []struct {
		f    serveFlags
		want string
	}{
		{serveFlags{}, "--e2b ADDR is missing"},
		{serveFlags{e2b: "127.0.0.1:0", cert: "x"}, "go together"},
		{serveFlags{e2b: "127.0.0.1"}, `--e2b "127.0.0.1"`},
		{serveFlags{e2b: "0.0.0.0:0"}, "sent in the clear"},
		{serveFlags{e2b: ":0"}, "sent in the clear"},
		{serveFlags{e2b: "localhost:0"}, "sent in the clear"},
	} {
		l, err := c.f.listen()
		if l != nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.f, err, c.want)
		}
	}
	for _, f := range []serveFlags{{e2b: "127.0.0.1:0"}, {e2b: "[::1]:0"}} {
		l, err := f.listen()
		if err != nil {
			if f.e2b == "[::1]:0" && len(hint.Of(err)) == 0 {
				continue // a machine without IPv6
			}
			t.Errorf("%s: %v", f.e2b, err)
			continue
		}
		l.Close()
	}
	if _, err := (&serveFlags{roles: []string{"a=b"}}).people(t.Context()); err == nil {
		t.Error("--role without --oidc was taken")
	}
}

// An instance of a tenant has nothing of the person's environment but where the engine is.
func TestInstanceOfATenant(t *testing.T) {
	own := cli.Environ{"HOME": "/home/me", "XDG_RUNTIME_DIR": "/run/user/1000", "ANTHROPIC_API_KEY": "x",
		"PATH":        "/opt/evil",
		"DOCKER_HOST": "unix:///run/docker.sock", "SSH_AUTH_SOCK": "/run/agent"}
	e := &engine{a: &Commands{App: &cli.App{Env: own, UID: 1000}}}
	at, err := e.at(serve.Place{Tenant: "acme", Dir: "/srv/acme"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := at.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{d.Config, d.State, d.Data} {
		if !strings.HasPrefix(dir, "/srv/acme/") {
			t.Errorf("%s is not the tenant's", dir)
		}
	}
	mine, err := e.a.Dirs()
	if err != nil || d.Runtime == mine.Runtime {
		t.Errorf("%q, %v: the socket is the person's", d.Runtime, err)
	}
	for _, name := range []string{"ANTHROPIC_API_KEY", "SSH_AUTH_SOCK"} {
		if at.Env.Get(name) != "" {
			t.Errorf("%s came along", name)
		}
	}
	if at.Env.Get("PATH") == own["PATH"] || at.Env.Get("DOCKER_HOST") != own["DOCKER_HOST"] || own["HOME"] != "/home/me" {
		t.Errorf("%v", at.Env)
	}
}
