package source_test

import (
	"testing"

	"cloister/internal/source"
)

func TestPosition(t *testing.T) {
	for _, tt := range []struct {
		at           source.Position
		whole, place string
	}{
		{source.Position{}, "", ""},
		{source.Position{Source: "--allow"}, "--allow", "--allow"},
		{source.Position{File: "/c/config.yaml"}, "/c/config.yaml", "/c/config.yaml"},
		{source.Position{File: "/c/config.yaml", Line: 3}, "/c/config.yaml:3", "/c/config.yaml:3"},
		{source.Position{Source: "config.yaml", File: "/c/config.yaml", Line: 3, Column: 7}, "/c/config.yaml:3:7", "/c/config.yaml:3"},
		{source.Position{Source: "approval 1", File: "/c/d.yaml", Line: 3}, "approval 1 (/c/d.yaml:3)", "/c/d.yaml:3"},
	} {
		if got := tt.at.String(); got != tt.whole || tt.at.Place() != tt.place {
			t.Errorf("%+v: %q at %q, want %q at %q", tt.at, got, tt.at.Place(), tt.whole, tt.place)
		}
	}
}

func TestProblem(t *testing.T) {
	p := &source.Problem{Position: source.Position{File: "a", Line: 1, Column: 2}, Msg: "wrong", Hint: "right"}
	if p.Error() != "a:1:2: wrong" || len(p.Hints()) != 1 || p.Hints()[0] != "right" {
		t.Errorf("%s, hints %q", p, p.Hints())
	}
	if p := (&source.Problem{Msg: "wrong"}); p.Error() != "wrong" || p.Hints() != nil {
		t.Errorf("%s, hints %q", p, p.Hints())
	}
}
