package policy_test

import (
	"errors"
	"strings"
	"testing"

	"cloister/internal/source"
	"cloister/policy"
)

func use(t *testing.T, s *policy.Snapshot, line, name string, bound policy.Effect) policy.Verdict {
	t.Helper()
	r := ask(t, line)
	r.Action = policy.SecretUse
	r.Use = &policy.Use{Name: name, Place: "header authorization", Bound: bound, Rule: "secret " + name, Reason: "bound"}
	return policy.Decide(s, r)
}

func TestSecretUse(t *testing.T) {
	record := policy.Record
	for _, mode := range []*policy.Mode{nil, &record} {
		s := compile(t, policy.Input{Unlisted: policy.Deny, Cedar: []policy.CedarFile{{Name: "s.cedar", Text: []byte(`
@id("no-deletes") forbid (principal, action == Action::"SecretUse", resource == Secret::"TOKEN") when { context.method == "DELETE" };
@id("elsewhere") forbid (principal in Agent::"claude", action == Action::"SecretUse", resource == Secret::"TOKEN") unless { context.hostname == "api.example" };
@ask @id("writes") permit (principal, action == Action::"SecretUse", resource) when { context.method == "POST" };
@id("torn") forbid (principal, action == Action::"SecretUse", resource == Secret::"TORN") when { context.depth + 9223372036854775807 > 0 };
permit (principal, action == Action::"SecretUse", resource == Secret::"NEVER");
`)}}})
		s, err := s.With(nil, mode)
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			line, name string
			bound      policy.Effect
			want       policy.Effect
			rule       string
		}{
			{"GET api.example/a", "TOKEN", policy.Allow, policy.Allow, "secret TOKEN"},
			{"DELETE api.example/a", "TOKEN", policy.Allow, policy.Deny, "no-deletes"},
			{"GET other.example/a", "TOKEN", policy.Allow, policy.Deny, "elsewhere"},
			{"GET other.example/a", "OTHER", policy.Allow, policy.Allow, "secret OTHER"},
			{"POST api.example/a", "TOKEN", policy.Allow, policy.Ask, "writes"},
			{"POST api.example/a", "TOKEN", policy.Ask, policy.Ask, "secret TOKEN"},
			{"GET api.example/a", "TOKEN", policy.Ask, policy.Ask, "secret TOKEN"},
			{"GET api.example/a", "TOKEN", policy.Deny, policy.Deny, "secret TOKEN"},
			{"GET api.example/a", "NEVER", policy.Deny, policy.Deny, "secret NEVER"}, // a permit gives nothing away
			{"GET api.example/a", "TORN", policy.Allow, policy.Deny, "torn"},         // what cannot be evaluated denies
			{"GET api.example/../a", "TOKEN", policy.Allow, policy.Deny, ""},         // nor what has no one spelling
		} {
			v := use(t, s, tc.line, tc.name, tc.bound)
			if v.Effect != tc.want || tc.rule != "" && v.Rule != tc.rule || v.WouldDeny {
				t.Errorf("%s with %s bound %s: %s by %q (%s), want %s by %q", tc.line, tc.name, tc.bound, v.Effect, v.Rule, v.Reason, tc.want, tc.rule)
			}
		}
	}
	if v := policy.Decide(nil, policy.Request{Action: policy.SecretUse}); v.Effect != policy.Deny {
		t.Error("no policy, and a secret is used")
	}
}

func TestSecretUseWords(t *testing.T) {
	for text, want := range map[string]string{
		`forbid (principal, action == Action::"SecretUse", resource == Secrets::"A");`:                            "did you mean \"Secret\"",
		`forbid (principal, action == Action::"SecretUses", resource);`:                                           "did you mean",
		`forbid (principal, action == Action::"SecretUse", resource) when { context.plase == "body" };`:           "did you mean \"place\"",
		`forbid (principal, action == Action::"SecretUse", resource == Host::"a.example");`:                       "",
		`forbid (principal, action == Action::"SecretUse", resource == Secret::"A") when { context.port > "a" };`: "",
	} {
		_, err := policy.Compile(policy.Input{Unlisted: policy.Deny, Cedar: []policy.CedarFile{{Name: "s.cedar", Text: []byte(text)}}})
		if err == nil || !strings.Contains(explained(err), want) {
			t.Errorf("%s: %v, want %q", text, explained(err), want)
		}
	}
	s := compile(t, policy.Input{Unlisted: policy.Deny, Cedar: []policy.CedarFile{{Name: "s.cedar", Text: []byte(`permit (principal, action == Action::"SecretUse", resource);`)}}})
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0].Msg, "gives no secret away") {
		t.Errorf("a permit of secrets is not told: %v", w)
	}
}

// explained is an error of Compile with the hint of its first problem.
func explained(err error) string {
	p, ok := errors.AsType[*source.Problem](err)
	if !ok {
		return err.Error()
	}
	return strings.Join(append([]string{err.Error()}, p.Hints()...), "; ")
}
