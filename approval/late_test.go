package approval_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"cloister/approval"
)

// TestAnsweredLate: a question that ended without an answer takes one that is remembered,
// once, and none for those who waited.
func TestAnsweredLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		defer w.Watch("")()
		ask := approval.Ask{SessionID: "s", Session: "s", Kind: approval.Network, Subject: "late.example:443"}
		if got := w.Ask(t.Context(), &ask); got.Outcome != approval.Expired {
			t.Fatalf("%+v", got)
		}
		id := w.History()[0].ID
		var over *approval.Over
		_, err := w.Answer(t.Context(), id, approval.Reply{Allow: true, Scope: approval.Once})
		if !errors.As(err, &over) {
			t.Errorf("for once: %v", err)
		}
		if _, err := w.Answer(t.Context(), id, approval.Reply{Allow: true, Scope: approval.Project, Nonce: "another"}); err == nil {
			t.Error("an answer to another question was taken")
		}
		w.decided = errors.New("it cannot be recorded")
		if _, err := w.Answer(t.Context(), id, approval.Reply{Allow: true, Scope: approval.Project}); err == nil {
			t.Error("an answer counted that could not be recorded")
		}
		w.decided = nil
		got, err := w.Answer(t.Context(), id, approval.Reply{Allow: true, Scope: approval.Project, By: "me"})
		if err != nil || got.Outcome != approval.Allowed || got.Reply.By != "me" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := w.Answer(t.Context(), id, approval.Reply{Scope: approval.Global}); !errors.As(err, &over) {
			t.Errorf("a second answer: %v", err)
		}
		story := w.story()
		if n := len(slices.DeleteFunc(slices.Clone(story), func(s string) bool { return s != "decided late.example:443 true project" })); n != 2 {
			t.Errorf("decided %d times, want 2 (one that failed): %q", n, story)
		}
		if again := w.History()[0]; again.Outcome != approval.Allowed {
			t.Errorf("the history has %+v", again)
		}
	})
}
