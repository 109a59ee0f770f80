package policyset_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/policy"
	"cloister/policyset"
)

// A policy of 10,000 statements is held, and what is said of those that are not has bounds.
func TestHoldsManyStatements(t *testing.T) {
	const n = 10_000
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "forbid (principal, action == Action::\"FileOpen\", resource == File::\"/srv/f%d\");\n", i)
	}
	s, err := policy.Compile(policy.Input{Unlisted: policy.Deny, Cedar: []policy.CedarFile{{Name: "many.cedar", Text: []byte(text.String())}}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, st := range s.Statements() {
		all = append(all, st.Rule)
	}
	begun := time.Now()
	if err := policyset.Holds(s, nil, all); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d statements held in %v", len(all), time.Since(begun))
	if err := policyset.Holds(s, all, nil); err == nil {
		t.Error("a rule's name alone accepted that it is open")
	}
	refused := func(closed []string) *api.Error {
		t.Helper()
		e, ok := errors.AsType[*api.Error](policyset.Holds(s, nil, closed))
		if !ok {
			t.Fatal("a statement that nothing keeps was passed over")
		}
		return e
	}
	if e := refused(all[:n-1]); !strings.Contains(e.Message, "many.cedar:10000:1") || len(e.Hints) != 1 {
		t.Errorf("without the last: %q, %q", e.Message, e.Hints)
	}
	e := refused(nil)
	if !strings.Contains(e.Message, "many.cedar:1:1") || len(e.Hints) > 20 {
		t.Errorf("without all: %q and %d hints", e.Message, len(e.Hints))
	}
	if last := e.Hints[len(e.Hints)-1]; !strings.Contains(last, "9990 more") {
		t.Errorf("the last of %d hints says %q, not how many more there are", len(e.Hints), last)
	}
}
