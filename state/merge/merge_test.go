package merge_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cloister/state/merge"
)

func TestThreeWay(t *testing.T) {
	const base = "1\n2\n3\n4\n5\n6\n"
	for name, tt := range map[string]struct{ base, mine, theirs, want, clash string }{
		"apart":                 {base, "one\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\nsix\n", "one\n2\n3\n4\n5\nsix\n", ""},
		"only mine":             {base, "1\n2\n", base, "1\n2\n", ""},
		"only theirs":           {base, base, "", "", ""},
		"the same":              {base, "1\nx\n3\n4\n5\n6\n", "1\nx\n3\n4\n5\n6\n", "1\nx\n3\n4\n5\n6\n", ""},
		"the same, and another": {base, "1\nx\n3\n4\n5\n6\n", "1\nx\n3\n4\n5\ny\n", "1\nx\n3\n4\n5\ny\n", ""},
		"one line":              {base, "1\n2\nx\n4\n5\n6\n", "1\n2\ny\n4\n5\n6\n", "", "line 3"},
		"touching":              {base, "1\n2\nx\n4\n5\n6\n", "1\n2\n3\ny\n5\n6\n", "", "lines 3 to 4"},
		"two insertions":        {base, "1\n2\nx\n3\n4\n5\n6\n", "1\n2\ny\n3\n4\n5\n6\n", "", "before line 3"},
		"one removes":           {base, "1\n2\n5\n6\n", "1\n2\n3\nfour\n5\n6\n", "", "lines 3 to 4"},
		"by way of another":     {base, "1\nx\n3\ny\n5\n6\n", "1\n2a\n3a\n4a\n5\n6\n", "", "lines 2 to 4"},
		"no last newline":       {"1\n2\n3", "one\n2\n3", "1\n2\nthree", "one\n2\nthree", ""},
		"of nothing":            {"", "x\n", "y\n", "", "before line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, clashes, err := merge.ThreeWay(tt.base, tt.mine, tt.theirs)
			if err != nil || got != tt.want || strings.Trim(fmt.Sprint(clashes), "[]") != tt.clash {
				t.Errorf("%q, %v, %v", got, clashes, err)
			}
			back, theirs, err := merge.ThreeWay(tt.base, tt.theirs, tt.mine)
			if err != nil || back != got || fmt.Sprint(theirs) != fmt.Sprint(clashes) {
				t.Errorf("the other way round: %q, %v, %v", back, theirs, err)
			}
		})
	}
}

// All hunks make the new text, none the old one; and what two people take of one change
// merges to the whole, since no hunk touches another.
func TestHunksAddUp(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		text := func() string {
			var b strings.Builder
			for range r.IntN(30) {
				fmt.Fprintf(&b, "%d\n", r.IntN(6))
			}
			return strings.TrimSuffix(b.String(), []string{"", "\n"}[r.IntN(2)])
		}
		old, now := text(), text()
		hunks, err := merge.Hunks(old, now)
		if err != nil {
			t.Fatal(err)
		}
		var one, two []merge.Hunk
		for _, h := range hunks {
			if r.IntN(2) == 0 {
				one = append(one, h)
			} else {
				two = append(two, h)
			}
		}
		take := func(list []merge.Hunk) string {
			s, err := merge.Take(old, list)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		if take(hunks) != now || take(nil) != old {
			t.Fatalf("seed %d: %q to %q", seed, old, now)
		}
		if got, clashes, err := merge.ThreeWay(old, take(one), take(two)); err != nil || len(clashes) == 0 && got != now {
			t.Fatalf("seed %d: %q, %v, %v; want %q", seed, got, clashes, err, now)
		}
	}
}

func FuzzThreeWay(f *testing.F) {
	f.Add("1\n2\n3\n", "1\nx\n3\n", "1\n2\n3\ny")
	f.Fuzz(func(t *testing.T, base, mine, theirs string) {
		got, clashes, err := merge.ThreeWay(base, mine, theirs)
		if err != nil {
			t.Fatal(err)
		}
		if len(clashes) == 0 && mine == base && got != theirs {
			t.Errorf("lost theirs: %q", got)
		}
		if len(clashes) > 0 && got != "" {
			t.Errorf("a clash with a text: %q", got)
		}
		if same, clashes, err := merge.ThreeWay(base, mine, mine); err != nil || len(clashes) > 0 || same != mine {
			t.Errorf("the same on both sides: %q, %v, %v", same, clashes, err)
		}
	})
}
