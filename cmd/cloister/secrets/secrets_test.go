package secrets

import (
	"slices"
	"strings"
	"testing"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/internal/hint"
	"cloister/secret"
)

func TestWordsOfSet(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string // of the error; empty for none
	}{
		{[]string{"TOKEN"}, ""},
		{[]string{"TOKEN", "--file", "x"}, ""},
		{[]string{"TOKEN", "--refresh", "30m", "--", "gh", "auth", "token"}, ""},
		{[]string{"AWS", "--kind", "aws"}, ""},
		{nil, "the name of the secret is missing"},
		{[]string{"--", "gh"}, "the name of the secret is missing"},
		{[]string{"TOKEN", "hunter2"}, "a value is never typed as an argument"},
		{[]string{"a b"}, "secret set:"},
		{[]string{"TOKEN", "--kind", "gcp"}, `"gcp" is no kind of secret`},
		{[]string{"TOKEN", "--file", "x", "--command", "y"}, "more than one source"},
		{[]string{"TOKEN", "--command", "y", "--", "z"}, "more than one source"},
		{[]string{"TOKEN", "--refresh", "30m"}, "--refresh is for a value that a command prints"},
		{[]string{"TOKEN", "--refresh", "1ms", "--command", "y"}, "is shorter than"},
		{[]string{"TOKEN", "--command", "echo $HOME"}, "read by no shell"},
	} {
		set := (&Commands{App: &cli.App{}}).secretSet()
		if err := set.ParseFlags(c.words); err != nil {
			t.Fatal(err)
		}
		err := set.Args(set, set.Flags().Args())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.words, err, c.want)
		}
		if strings.Contains(strings.Join(append(hint.Of(err, func(error) []string { return nil }), errText(err)), " "), "hunter2") {
			t.Errorf("%q: what was typed is in the error: %v", c.words, err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestLinesOfASecret(t *testing.T) {
	s := api.Secret{Name: "T", Kind: string(secret.KindAWS), Source: api.SecretCommand, Command: []string{"gh", "auth", "token"},
		Bindings: []api.SecretBinding{
			{Hosts: []string{"a.example", "b.example"}, Methods: []string{"GET"}, Paths: []string{"/x"}, Place: "header", Use: "ask",
				Env: []string{"T"}, Where: "config.yaml:3"},
			{Hosts: []string{"a.example"}, Place: "header", Use: "allow"},
		}}
	for _, c := range [][2]string{
		{sourceOf(s), "aws key, command: gh auth token"},
		{hostsOf(s), "a.example, b.example"},
		{hostsOf(api.Secret{}), "none: secrets in config.yaml binds it"},
		{bindingLine(s.Bindings[0]), "a.example, b.example; GET /x; in the header; ask; inside as T  (config.yaml:3)"},
		{bindingLine(s.Bindings[1]), "a.example; in the header"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}

// A command that prints a secret finds the person's keyring and folders, and no relative path.
func TestEnvironmentOfACommand(t *testing.T) {
	a := &Commands{App: &cli.App{Env: cli.Environ{"XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "relative", "TOKEN": "x",
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=/bus"}}}
	host := []string{"PATH=/bin"}
	got := a.Environment(host)
	want := []string{"PATH=/bin", "DBUS_SESSION_BUS_ADDRESS=unix:path=/bus", "XDG_DATA_HOME=/d"}
	if !slices.Equal(got, want) || !slices.Equal(host, []string{"PATH=/bin"}) {
		t.Errorf("%q, want %q", got, want)
	}
}
