package jsonc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cloister/devcontainer/jsonc"
)

func TestParseKeepsPlaces(t *testing.T) {
	const text = "// top\n{\n  \"a\": 1, /* c */\n  \"b\": [\n    \"x\", // y\n    {\"c\": null},\n  ],\n}\n"
	v, err := jsonc.Parse("f", []byte("\ufeff"+text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jsonc.Parse("f", []byte("{} // no line end")); err != nil {
		t.Error(err)
	}
	b, _ := v.Member("b")
	if b.Line != 4 || b.Column != 3 || b.Value.Items[1].Line != 6 || b.Value.Items[1].Members[0].Column != 6 {
		t.Errorf("places: %+v", b)
	}
	got, _ := json.Marshal(v.Any())
	if string(got) != `{"a":1,"b":["x",{"c":null}]}` {
		t.Errorf("got %s", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		line, column int
		says         string
	}{
		{"no comma", "{\n  \"a\": 1\n  \"b\": 2\n}", 3, 3, "after object value"},
		{"open comment", "{ /* \n", 1, 3, "comment"},
		{"two values", "{} {}", 1, 4, "after top-level value"},
		{"empty", "", 1, 1, "EOF"},
		{"a key twice", "{\"a\":1,\n\"a\":2}", 2, 1, `"a" stands at line 1 already`},
		{"a key twice by an escape", "{\"a\":1,\n\"\\u0061\":2}", 2, 1, `stands at line 1 already`},
		{"deep", strings.Repeat("[", 5000), 1, 101, "nested deeper"},
		{"deep behind a string", "[\"\\\"[\"" + strings.Repeat(",[", 5000), 1, 0, "nested deeper"},
		{"long", strings.Repeat(" ", jsonc.MaxSize+1), 1, 1, "longer than"},
	} {
		_, err := jsonc.Parse("f.json", []byte(c.text))
		var e *jsonc.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if e.Line != c.line || c.column > 0 && e.Column != c.column || !strings.Contains(e.Msg, c.says) || !strings.HasPrefix(e.Error(), "f.json:") {
			t.Errorf("%s: %v", c.name, e)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"{}", "// x\n{\"a\":[1,2,],}", "[\"\\ud800\"]", "{\"a\":1e999}", "/*", "\"", "{\"a\":1,\"a\":2}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jsonc.Parse("f", text)
		if err != nil {
			var e *jsonc.Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 {
				t.Fatalf("%v", err)
			}
			return
		}
		if v.Line < 1 || v.Column < 1 {
			t.Fatalf("no place: %+v", v)
		}
		if _, err := json.Marshal(v.Any()); err != nil {
			t.Fatal(err)
		}
	})
}
