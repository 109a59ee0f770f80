package corpus

import (
	"cloister/escape"
	"cloister/escape/browser"
	"context"
	"slices"
	"strings"
)

func ui05a() escape.Case {
	return escape.Case{
		ID: "UI-05a", Class: "paired device", Attack: "answer as a paired phone with all but its key: what passed the tunnel again and for another question, a code used twice, another device, another Host and origin, a device that was forgotten",
		Source: "UI-05 (a phone over a tunnel)", Layers: []string{"window"},
		Host: hosted(asksForAll, func(r *ruled) []escape.Finding {
			return r.watched(func() []escape.Finding {
				p, code, err := browser.Paired(context.Background(), r.base+"/run/cloister/guardian.sock", "phone", "https://my-tunnel.example")
				if err != nil {
					return escape.NoHost("pair a phone", err)
				}
				r.started("cd /work && hostexec echo one; hostexec echo two; hostexec echo three")
				next := func() (q browser.Question, waits bool) {
					r.w.Until(patient, func() bool {
						all := p.Questions()
						waits = len(all) == 1 && all[0] != q
						if waits {
							q = all[0]
						}
						return waits || r.has("status")
					})
					return q, waits
				}
				first, _ := next()
				used := p.Answer(first, "deny")
				res := p.Post("/answer", used)
				r.w.Until(patient, func() bool { return !slices.Contains(r.questions(), first.ID) })
				q, waits := next()
				out := []escape.Finding{found("control: the phone denies one, and the next waits", waits && res.Status == 200 && q != first, "%+v %+v", res, q)}
				for name, got := range p.Forged(q, first, used, code) {
					out = append(out, found(name, got.Status >= 400 && slices.Contains(r.questions(), q.ID), "%d %.200s", got.Status, got.Body))
				}
				res = p.Post("/answer", p.Answer(q, "allow"))
				last, waits := next()
				r.cloister("window", "unpair", "phone")
				late := p.Post("/answer", p.Answer(last, "allow"))
				out = append(out, found("control: the phone allows it", waits && res.Status == 200, "%+v", res), found("a device that was forgotten", late.Status == 0 && slices.Contains(r.questions(), last.ID), "%+v", late))
				r.cloister("approvals", "deny", last.ID)
				_, said := r.ended()
				lines := strings.Split(said, "\n")
				return append(out, found("what ran", slices.Contains(lines, "two") && !slices.Contains(lines, "one") && !slices.Contains(lines, "three"), "%q", said))
			})
		}),
	}
}
