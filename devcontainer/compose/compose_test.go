package compose_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cloister/devcontainer/compose"
	"cloister/devcontainer/jsonc"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                            `{}`,
		"a: 1\nb: x\nc: true\nd: ~\n": `{"a":1,"b":"x","c":true,"d":null}`,
		"a: [x, 'y z', \"\\n\"]\n":    `{"a":["x","y z","\n"]}`,
		"a: |\n  one\n  two\n":        `{"a":"one\ntwo\n"}`,
		"a: 0x10\n":                   `{"a":"0x10"}`,
		"a: &x {b: 1}\nc: *x\n":       `{"a":{"b":1},"c":{"b":1}}`,
		"a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n":             `{"a":{"b":1,"c":2},"d":{"c":3,"b":1}}`,
		"a: &x {b: 1}\ne: &y {f: 2}\nd:\n  <<: [*x, *y]\n  c: 3": `{"a":{"b":1},"e":{"f":2},"d":{"c":3,"b":1,"f":2}}`,
	} {
		v, err := compose.Parse("c.yml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var wanted any
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(v.Any())
		b, _ := json.Marshal(wanted)
		if string(a) != string(b) {
			t.Errorf("%q: %s, want %s", text, a, b)
		}
	}
	v, err := compose.Parse("c.yml", []byte("x: &x\n  privileged: true\nservices:\n  db:\n    <<: *x\n"))
	if err != nil {
		t.Fatal(err)
	}
	services, _ := v.Get("services")
	db, _ := services.Get("db")
	if m := db.Members[0]; m.Name != "privileged" || m.Line != 2 {
		t.Errorf("what is merged has not the place where it was written: %+v", m)
	}
}

func TestParseRefuses(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for n := 1; n < 9; n++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", n, n, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", n-1), 10), ", "))
	}
	for text, want := range map[string]string{
		"a: 1\na: 2\n":                           `c.yml:2:1: `,
		"a: [\n":                                 "c.yml:",
		"a: *x\n":                                "no anchor x stands before it",
		"a: &x [*x]\n":                           "no anchor x stands before it",
		"a: !reset 1\n":                          "tags and directives",
		"a: 1\n---\nb: 2\n":                      "second document",
		bomb:                                     "it comes to more than",
		strings.Repeat("[", 40):                  "nested more than 32 deep",
		"a: \x00\n":                              "plain UTF-8",
		"a: &x 1\nb: &x 2\n":                     "stands twice",
		"a:\n  <<: 1\n":                          "no mapping",
		strings.Repeat("a", 300<<10):             "longer than",
		"a: " + strings.Repeat("x: y, ", 60_000): "longer than",
	} {
		_, err := compose.Parse("c.yml", []byte(text))
		if _, placed := errors.AsType[*jsonc.Error](err); !placed || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("services:\n  db: &x {image: a, <<: {b: 1}}\n  c: *x\n"))
	f.Add([]byte("a: |\n x\nb: [1, {c: d}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := compose.Parse("c.yml", text)
		if _, placed := errors.AsType[*jsonc.Error](err); err != nil && !placed {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && v.Kind == jsonc.Object && v.Line == 0 {
			t.Errorf("%q: without a place", text)
		}
	})
}
