package policyset_test

import (
	"strings"
	"testing"

	"cloister/api"
	"cloister/policyset"
)

// TestCheckNarrow has statements that a session may be given while it lives, and those that
// would do more than forbid, or that nothing would keep.
func TestCheckNarrow(t *testing.T) {
	const forbid = `forbid (principal, action == Action::"NetworkConnect", resource in Host::"a.example");`
	for name, tt := range map[string]struct {
		text string
		good bool
	}{
		"an empty file":       {"", false},
		"a host":              {forbid, true},
		"all but one":         {`forbid (principal, action == Action::"NetworkConnect", resource) unless { resource in Host::"a.example" };`, true},
		"a permit":            {`permit (principal, action == Action::"NetworkConnect", resource in Host::"a.example");`, false},
		"a permit of all":     {`permit (principal, action, resource);`, false},
		"one behind another":  {forbid + ` permit (principal, action == Action::"NetworkConnect", resource in Host::"b.example");`, false},
		"a question":          {`@ask("true") permit (principal, action == Action::"NetworkConnect", resource in Host::"a.example");`, false},
		"about files":         {`forbid (principal, action == Action::"FileOpen", resource in Dir::"/home");`, false},
		"about programs":      {`forbid (principal, action == Action::"ProcessExec", resource);`, false},
		"no statement at all": {`forbid (`, false},
		"too many":            {strings.Repeat(forbid+"\n", api.MaxNarrow/len(forbid)+1), false},
	} {
		if err := policyset.CheckNarrow([]api.CedarFile{{Name: "network", Text: tt.text}}); (err == nil) != tt.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := policyset.CheckNarrow(nil); err != nil {
		t.Errorf("nothing: %v", err)
	}
}
