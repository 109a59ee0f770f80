package edit_test

import (
	"strings"
	"testing"

	"cloister/config"
	"cloister/config/edit"
)

// A rule is added to a file as a person wrote it: what stood there stands there
// still, and the new file says what was meant.
func TestWithRule(t *testing.T) {
	d := edit.Draft{List: "allow", Domain: "new.example", Port: 8443}
	for name, text := range map[string]string{
		"nothing":         "",
		"no proxy":        "version: 1\ndefaults: {mode: shadow} # why\n",
		"no end of line":  "version: 1",
		"empty proxy":     "version: 1\nproxy: {}\n",
		"bare proxy":      "version: 1\nproxy:\n",
		"no list":         "version: 1\nproxy:\n    presets: [] # none\nhostexec: {}\n",
		"block":           "version: 1\nproxy:\n  # ours\n  allow:\n    # the first\n    - domain: old.example # why\n      ports: [1]\n  deny: [{domain: bad.example}]\n",
		"flat block":      "version: 1\nproxy:\n  allow:\n  - domain: old.example\n",
		"flow":            "version: 1\nproxy:\n  allow: [{domain: old.example}, {domain: \"*.older.example\"}]\n",
		"empty flow":      "version: 1\nproxy:\n  allow: []\n",
		"flow over lines": "version: 1\nproxy:\n  allow: [\n    {domain: old.example}]\n",
		"windows":         "version: 1\r\nproxy:\r\n  presets: []\r\n",
	} {
		got, err := edit.WithRule([]byte(text), d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, err := config.Parse("config.yaml", got)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, got)
			continue
		}
		before, err := config.Parse("config.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r := c.Proxy.Allow[0]
		if r.Domain != "new.example" || len(r.Ports) != 1 || r.Ports[0] != 8443 || len(c.Proxy.Allow) != len(before.Proxy.Allow)+1 || len(c.Proxy.Deny) != len(before.Proxy.Deny) {
			t.Errorf("%s: %+v\n%s", name, c.Proxy, got)
		}
		for word := range strings.FieldsSeq(text) {
			if word != "{}" && !strings.Contains(string(got), strings.Trim(word, "[]")) {
				t.Errorf("%s: %q is gone:\n%s", name, word, got)
			}
		}
	}
	for name, text := range map[string]string{"on one line": "proxy: {allow: []}\n", "no list": "proxy:\n  allow: yes\n"} {
		if got, err := edit.WithRule([]byte(text), d); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	got, err := edit.WithRule(nil, edit.Draft{List: "deny", Domain: "*.a.example", Method: "PUT", Path: "/a b/**"})
	if err != nil || !strings.Contains(string(got), `- {domain: "*.a.example", methods: [PUT], paths: ["/a b/**"]}`) {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestWithSecret(t *testing.T) {
	b := config.Secret{Name: "KEY", Hosts: []string{"api.example"}, Header: "Authorization", Format: "Bearer {}"}
	const item = `{name: KEY, hosts: [api.example], header: Authorization, format: "Bearer {}"}`
	for _, test := range []struct{ name, text, want string }{
		{"no file", "", "version: 1\nsecrets:\n  - " + item + "\n"},
		{"no secrets", "# mine\nproxy: {}", "# mine\nproxy: {}\nsecrets:\n  - " + item + "\n"},
		{"a list", "secrets:   # all\n- {name: A, hosts: [a.example]}\nimage: x\n", "secrets:   # all\n- " + item + "\n- {name: A, hosts: [a.example]}\nimage: x\n"},
		{"a deep list", "secrets:\n    # first\n    - {name: A, hosts: [a.example]}\n", "secrets:\n    - " + item + "\n    # first\n    - {name: A, hosts: [a.example]}\n"},
		{"an empty list", "secrets: []\n", "secrets: [" + item + "]\n"},
		{"on one line", "secrets: [{name: A, hosts: [a.example]}]\n", "secrets: [" + item + ", {name: A, hosts: [a.example]}]\n"},
		{"nothing yet", "secrets:\nversion: 1\n", "secrets:\n  - " + item + "\nversion: 1\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := edit.WithSecret([]byte(test.text), b)
			if err != nil || string(got) != test.want {
				t.Fatalf("%v\n%s\nwant\n%s", err, got, test.want)
			}
			c, err := config.Parse("config.yaml", got)
			if err != nil || c.Secrets[0].Name != "KEY" {
				t.Errorf("%v: %v", c, err)
			}
		})
	}
	if _, err := edit.WithSecret([]byte("secrets: {a: b}\n"), b); err == nil {
		t.Error("a map was taken for a list")
	}
}
