package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"cloister/secret"
)

const canary = "sk-ant-api03-CanaryCanaryCanaryCanaryCanary"

type named struct{ V secret.Value }

func value(t *testing.T, text string) secret.Value {
	t.Helper()
	v, err := secret.New(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEveryWayOfPrintingGivesTheMark(t *testing.T) {
	v := value(t, canary)
	said := map[string]string{
		"String": v.String(), "GoString": v.GoString(), "Sprint": fmt.Sprint(v), "error": fmt.Errorf("x %w %v", errors.New("y"), v).Error(),
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%40s", "%U", "%b"} {
		said[verb] = fmt.Sprintf(verb, v)
		said["pointer "+verb] = fmt.Sprintf(verb, &v)
	}
	text, err := json.Marshal(map[string]any{"a": v, "b": &v, "c": []secret.Value{v}, "d": struct{ V secret.Value }{v}})
	said["JSON"] = string(text)
	if err != nil {
		t.Error(err)
	}
	if text, err = xml.Marshal(named{v}); err != nil {
		t.Error(err)
	}
	said["XML"] = string(text)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v, "p", &v, "g", slog.GroupValue(slog.Any("v", v)))
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v)
	said["slog"] = log.String()
	var page bytes.Buffer
	if err := template.Must(template.New("").Parse("{{.}} {{printf \"%s\" .}}")).Execute(&page, v); err != nil {
		t.Error(err)
	}
	said["template"] = page.String()
	var gobbed bytes.Buffer
	if err := gob.NewEncoder(&gobbed).Encode(v); err != nil {
		t.Error(err)
	}
	said["gob"] = gobbed.String()
	for how, text := range said {
		if !strings.Contains(text, secret.Mark) {
			t.Errorf("%s gives %q, not the mark", how, text)
		}
	}
	// fmt calls no method of what is in an unexported field.
	hidden := struct {
		v    secret.Value
		list []secret.Value
	}{v, []secret.Value{v}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		said["hidden "+verb] = fmt.Sprintf(verb, hidden)
	}
	said["reflect"] = fmt.Sprint(reflect.ValueOf(hidden).Field(0))
	for how, text := range said {
		if strings.Contains(text, "Canary") || strings.Contains(text, fmt.Sprintf("%x", "Canary")) {
			t.Errorf("%s gives the value away: %q", how, text)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "line feed": "a\nb", "carriage return": "a\rb", "NUL": "a\x00b", "escape": "a\x1bb",
		"space before": " a", "space behind": "a ", "too long": strings.Repeat("x", secret.MaxValue+1),
	} {
		v, err := secret.New(text)
		if err == nil || !v.IsZero() {
			t.Errorf("%s: taken", name)
		} else if len(text) > 3 && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error quotes the value: %v", name, err)
		}
	}
}

func TestPlaceholderShape(t *testing.T) {
	jwt := "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJtZSIsImVtYWlsIjoibWVAZXhhbXBsZS5jb20iLCJleHAiOjIwMDAwMDAwMDB9." + strings.Repeat("s", 80)
	for _, c := range []struct{ name, real, begins string }{
		{"anthropic", "sk-ant-api03-" + strings.Repeat("aB3", 31) + "AA", "sk-ant-api03-"},
		{"github", "ghp_" + strings.Repeat("Zz9", 12), "ghp_"},
		{"access key", "AKIAIOSFODNN7QWERTY2", "AKIA"},
		{"unknown", "hunter-2-correct-horse-battery-staple", ""},
		{"short", "hunter2", ""},
		{"hex", strings.Repeat("0a", 20), ""},
		{"uuid", "123e4567-e89b-12d3-a456-426614174000", ""},
		{"jwt", jwt, "eyJ"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := secret.NewPlaceholder(value(t, c.real))
			if p == secret.NewPlaceholder(value(t, c.real)) {
				t.Error("two placeholders are the same")
			}
			if !strings.HasPrefix(p.Text, c.begins) || !strings.Contains(p.Text, p.Core) || len(p.Core) < min(20, max(16, len(p.Text)-4)) {
				t.Errorf("%q with core %q", p.Text, p.Core)
			}
			if len(c.real) >= 33 && c.name != "jwt" && len(p.Text) != len(c.real) {
				t.Errorf("%d characters for %d", len(p.Text), len(c.real))
			}
			rest := strings.TrimPrefix(c.real, c.begins)
			for i := range len(rest) - 6 {
				if c.name != "jwt" && strings.Contains(p.Text, rest[i:i+7]) {
					t.Errorf("%q has %q of the value", p.Text, rest[i:i+7])
				}
			}
			if c.name == "jwt" && (strings.Count(p.Text, ".") != 2 || strings.Contains(p.Text, "bWVAZXhhbXBsZS5jb20") || len(p.Text) < len(jwt)*3/4 || len(p.Text) > len(jwt)*5/4) {
				t.Errorf("%q for %q", p.Text, jwt)
			}
		})
	}
}
