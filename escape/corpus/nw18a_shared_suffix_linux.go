package corpus

import (
	"slices"
	"strings"

	"cloister/escape"
)

func nw18a() escape.Case {
	names := []string{"me.github.io", "me.vercel.app", "me.s3.amazonaws.com", "me.blob.core.windows.net", "me.herokuapp.com"}
	return escape.Case{
		ID: "NW-18a", Class: "wildcards over everybody's names", Attack: "a question about one name below a suffix where anybody can have one (*.github.io, *.vercel.app) " +
			"offers all of them, or takes a pattern for them",
		Source: "issue 16, second audit", Layers: []string{"approval"}, Needs: gate(),
		Host: with(func(w *escape.World) string {
			return "version: 1\nproxy:\n  unlisted_domain_behavior: ask\n  presets: []\n"
		}, func(r *ruled) []escape.Finding {
			return r.watched(func() []escape.Finding {
				var out []escape.Finding
				script := ""
				for _, name := range append(slices.Clone(names), "www.example.com", "api.me.github.io") {
					script += "(" + r.w.Self + " say tcp:" + name + ":443 x) & "
				}
				clean(r.project+"/out", r.project+"/status")
				r.started(script + "wait")
				r.w.Until(patient, func() bool { return len(r.questions()) == len(names)+2 || r.has("status") })
				asked := map[string]string{} // the question about a name
				offers := map[string]string{}
				for _, q := range r.pending() {
					host, _, _ := strings.Cut(q.Subject, ":")
					asked[host], offers[host] = q.ID, q.Wildcard
				}
				for _, name := range names {
					_, suffix, _ := strings.Cut(name, ".")
					wide := r.cloister("approvals", "approve", asked[name], "--scope", "session", "--pattern", "*."+suffix)
					out = append(out, found(name+": no wider set is offered or taken", asked[name] != "" && offers[name] == "" && wide.Status != 0 && strings.Contains(wide.Stderr, "anybody"),
						"%q offers %q; %d %.300s", asked[name], offers[name], wide.Status, wide.Stderr))
				}
				owned := offers["www.example.com"] == "*.example.com:443" && offers["api.me.github.io"] == "*.me.github.io:443"
				out = append(out, found("control: below a name of one owner it is offered", owned, "%q", offers))
				for _, id := range r.questions() {
					r.cloister("approvals", "deny", id)
				}
				r.ended()
				return out
			})
		}),
	}
}
