package approval_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"cloister/approval"
)

// One allow for once releases one request of those that wait behind an equal question
// (SE-20); each of the others has a question of its own.
func TestOnceReleasesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(func(o *approval.Options) { o.Rate = 1 })
		defer w.Watch("")()
		const n = 5
		var asked []<-chan approval.Answer
		for range n {
			asked = append(asked, w.begin(t.Context(), ask("s", "a:443")))
		}
		released := func() int {
			got := 0
			for _, c := range asked {
				got += len(c)
			}
			return got
		}
		seen := map[string]bool{}
		for i := range n {
			synctest.Wait()
			list := w.Pending()
			if len(list) != 1 || list[0].Waiting != n-i || released() != i {
				t.Fatalf("after %d answers %d released, pending %+v", i, released(), list)
			}
			one := list[0]
			if seen[one.ID] || seen[one.Nonce] || len(one.Nonce) != 32 {
				t.Errorf("ID %s and nonce %q are not its own", one.ID, one.Nonce)
			}
			seen[one.ID], seen[one.Nonce] = true, true
			wrong := allow(approval.Once)
			wrong.Nonce = strings.Repeat("0", 32)
			if _, err := w.Answer(t.Context(), one.ID, wrong); err == nil {
				t.Error("an answer to another question counted")
			}
			right := allow(approval.Once)
			right.Nonce = one.Nonce
			if _, err := w.Answer(t.Context(), one.ID, right); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range asked {
			if a := <-c; !a.Allowed() || !seen[a.ID] {
				t.Errorf("%+v", a)
			}
		}
	})
}

// A wider answer is for all who wait, as is a deny.
func TestWiderReleasesAll(t *testing.T) {
	for _, r := range []approval.Reply{allow(approval.Session), {Scope: approval.Once}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(nil)
			defer w.Watch("")()
			a, b := w.begin(t.Context(), ask("s", "a:443")), w.begin(t.Context(), ask("s", "a:443"))
			synctest.Wait()
			if _, err := w.Answer(t.Context(), w.Pending()[0].ID, r); err != nil {
				t.Fatal(err)
			}
			if x, y := <-a, <-b; x.Allowed() != r.Allow || y.Allowed() != r.Allow || x.ID != y.ID {
				t.Errorf("%+v and %+v", x, y)
			}
		})
	}
}

// Where the one leaves whose question it is, its answer is for nobody else: what was
// shown is what that one wanted.
func TestLeavingBeforeOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		defer w.Watch("")()
		ctx, leave := context.WithCancel(t.Context())
		first := w.begin(ctx, ask("s", "a:443"))
		synctest.Wait()
		second := w.begin(t.Context(), ask("s", "a:443"))
		synctest.Wait()
		shown := w.Pending()[0]
		leave()
		if a := <-first; a.Outcome != approval.Withdrawn {
			t.Errorf("%+v", a)
		}
		synctest.Wait()
		if _, err := w.Answer(t.Context(), shown.ID, allow(approval.Once)); err == nil {
			t.Error("an answer to what was withdrawn counted")
		}
		next := w.Pending()
		if len(next) != 1 || next[0].ID == shown.ID || next[0].Waiting != 1 {
			t.Fatalf("%+v", next)
		}
		if _, err := w.Answer(t.Context(), next[0].ID, allow(approval.Once)); err != nil {
			t.Fatal(err)
		}
		if a := <-second; !a.Allowed() {
			t.Errorf("%+v", a)
		}
	})
}

// What a scope covers is said in words, and bound to a digest only where that is all.
func TestCovers(t *testing.T) {
	i := approval.Item{Waiting: 3, Ask: approval.Ask{Kind: approval.MCP, Subject: "s/t", Digest: "d", Wide: "every call of t of s, with any arguments"}}
	for scope, want := range map[approval.Scope]string{
		approval.Once:    "exactly one: what is shown here; 2 more wait behind it, each with a question of its own",
		approval.Session: "every call of t of s, with any arguments, by this session until it ends",
		approval.Project: "every call of t of s, with any arguments, by every cloister of this project, now and later",
		approval.Global:  "every call of t of s, with any arguments, by every cloister of every project, now and later",
	} {
		bound := ""
		if scope == approval.Once {
			bound = "d"
		}
		if got := i.Covers(scope); got != want || i.BoundTo(scope) != bound {
			t.Errorf("%s: %q bound to %q, want %q", scope, got, i.BoundTo(scope), want)
		}
	}
}
