package corpus

import (
	"fmt"
	"strings"
	"time"

	"cloister/escape"
)

func st02() escape.Case {
	return escape.Case{
		ID: "ST-02", Class: "an apply against the person's own edits", Slow: 120,
		Attack: "the person saves a file at every moment of an apply and an undo of it, in place and by a rename",
		Source: "issue 19", Layers: []string{"apply"},
		Host: between("", func(r *ruled) []escape.Finding {
			made := r.host(newRepository + "; chmod a+rwx .")
			out := []escape.Finding{worked("the project is made", made)}
			var lost, refused, came []string
			// An apply without an editor says how long one takes here and now.
			r.host("printf base >f")
			if in := r.overlaid("st02-first", "printf agent >f"); in.Status != 0 {
				return append(out, worked("the payload", in))
			}
			began := time.Now()
			out = append(out, worked("an apply alone", r.cloister("apply", "st02-first")))
			took := time.Since(began)
			for i := range 24 {
				name := fmt.Sprintf("st02-%d", i)
				// The editor goes to work a little later each time: before, within and after.
				saved := (took * time.Duration(i) / 16).Seconds()
				save := "printf person >f"
				if i%2 == 1 {
					save = "printf person >.f.swp && mv .f.swp f"
				}
				r.host("printf base >f; for n in 1 2 3 4 5 6 7 8 9; do printf base >g$n; done; sleep 0.02")
				in := r.overlaid(name, "for n in 1 2 3 4 5 6 7 8 9; do printf agent >g$n; done; printf agent >f")
				if in.Status != 0 {
					return append(out, worked("the payload", in))
				}
				verb := "apply " + name
				if i%3 == 2 {
					if res := r.cloister("apply", name); res.Status != 0 {
						return append(out, worked("an apply before", res))
					}
					verb = "undo " + name
				}
				res := r.host(fmt.Sprintf("{ (sleep %.3f; %s) & %s %s %s; s=$?; wait; echo; cat f g1 g9 | tr -d '\\n'; exit $s; }",
					saved, save, strings.Join(r.variables(), " "), r.w.Cloister, verb))
				got := res.Stdout[strings.LastIndexByte(res.Stdout, '\n')+1:]
				switch whole := strings.TrimPrefix(got, "person"); {
				case whole == got:
					lost = append(lost, fmt.Sprintf("%d %s: %q", i, verb, got))
				case whole != "agentagent" && whole != "basebase":
					lost = append(lost, fmt.Sprintf("%d %s: half: %q", i, verb, got))
				case res.Status == 0:
					came = append(came, name)
				default:
					refused = append(refused, name)
				}
				r.cloister("discard", name)
			}
			return append(out,
				found("what the person saved is there, and the rest is of one version", len(lost) == 0, "%q", lost),
				found("control: some applies came off, and some were refused", len(came) > 0 && len(refused) > 0, "%d and %d", len(came), len(refused)))
		}),
	}
}
