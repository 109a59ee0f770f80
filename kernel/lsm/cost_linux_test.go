package lsm_test

import (
	"fmt"
	"os"
	"testing"

	"cloister/kernel/lsm"
)

// TestKernelCosts writes what an open and an execution cost: in no session, where programs
// are attached all the same, in one whose policy has no rule, and in one with rules on the way.
// Emulated, so that only one beside the other means anything; nothing is held against a bound.
func TestKernelCosts(t *testing.T) {
	s := begin(t)
	tree(t)
	for _, c := range []struct {
		name   string
		inside bool
		rules  []lsm.Rule
	}{
		{"outside, programs attached", false, nil},
		{"a session without rules", true, nil},
		{"a session with rules on the way", true, []lsm.Rule{
			{Path: "/t/secret/deep", Forbid: lsm.Write}, {Path: "/t/secret", Forbid: lsm.Write}, {Path: "/t/bin", Forbid: lsm.Write},
		}},
	} {
		if err := s.Apply(os.Getpid(), lsm.Policy{Permit: lsm.All, Rules: c.rules}); err != nil {
			t.Fatal(err)
		}
		var open, execute int
		if got := start(t, "cost", c.inside).result(nil); got != "through" {
			if n, err := fmt.Sscan(got, &open, &execute); n != 2 || err != nil || open <= 0 || execute <= 0 {
				t.Fatalf("%s: %s", c.name, got)
			}
		}
		fmt.Printf("@@ cost\t%s\t%d ns open and close\t%d ns execute\n", c.name, open, execute)
	}
}
