package corpus

import (
	"strings"

	"cloister/escape"
)

func nw37b() escape.Case {
	return escape.Case{
		ID: "NW-37b", Class: "refusals that nobody meant", Attack: "a program's questions for other records (TXT, SRV, MX) of allowed and denied names fill the person's " +
			"list of refusals, in which a real one drowns",
		Source: "issue 16, second audit", Layers: []string{"DNS forwards nothing"}, Needs: gate(),
		Host: vaulted(func(r *ruled) []escape.Finding {
			r.one = false // the list is told at a cloister's end
			quiet := r.inside("txt", "bound.test", "_x.bound.test", "denied37b.test", "_x.denied37b.test")
			real := r.inside("say", "tcp:denied37b.test:443", "x")
			recorded := r.cloister("audit", "tail", "-n", "0", "--kind", "net.dns").Stdout
			return []escape.Finding{
				found("no answer comes", strings.Count(quiet.Stdout, "[]") == 4, "%s", quiet.Stdout),
				found("the person's list has none of them", quiet.Status == 0 && !strings.Contains(quiet.Stderr, "37b") && !strings.Contains(quiet.Stderr, "bound.test"), "%s", quiet.Stderr),
				found("the record has them", strings.Contains(recorded, "_x.denied37b.test"), "%.600s", recorded),
				found("control: a connection that is refused is in the list", strings.Contains(real.Stderr, "denied37b.test"), "%s %s", real.Stdout, real.Stderr),
			}
		}),
	}
}
