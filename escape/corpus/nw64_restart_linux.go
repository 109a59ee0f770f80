package corpus

import (
	"strings"

	"cloister/escape"
)

func nw64() escape.Case {
	return escape.Case{
		ID: "NW-64", Class: "after a guardian restart", Attack: "the guardian is killed under a session with a secret, and the next one takes the session over, with the sealed state and without: the same connections and requests again",
		Source: "issue 16, second audit", Layers: []string{"secrets"}, Needs: gate(),
		Host: vaulted(func(r *ruled) []escape.Finding {
			tries := 50
			if r.w.Kind.Machine != "" {
				tries = 8 // each takes seconds where a machine is emulated
			}
			say := func(n string) string {
				// The next guardian is asked for names a moment after it has the session.
				return "while [ ! -e /work/go" + n + " ]; do sleep 0.1; done; for i in $(seq " + itoa(tries) + "); do " + r.w.Self + " say tls:bound.test '" +
					get("bound.test", "/ok/ready64") + "' 2>&1 | grep -q HTTP/ && break; sleep 0.1; done; { " + r.w.Self + " say tls:bound.test '" + get("bound.test", "/ok/reflect/body", bearer) + "'; " +
					r.w.Self + " say tls:bound.test '" + get("bound.test", "/ok/reflect/first", bearer) + "'; " +
					r.w.Self + " say tls:unbound.test '" + get("unbound.test", "/ok/other64", bearer) + "'; echo the placeholder: ${TOKEN}; } >/work/out.new 2>&1; mv /work/out.new /work/out" + n + "; "
			}
			clean(r.project+"/go1", r.project+"/go2", r.project+"/go3", r.project+"/out1", r.project+"/out2", r.project+"/out3")
			start := r.cloister("run", "-d", "--name", "w64", "-C", r.project, "--expose", r.w.Self+":ro", "--", "sh", "-c", say("1")+say("2")+say("3"))
			round := func(n string) (said, sent string) {
				before := len(r.w.Upstream())
				r.host("touch go" + n)
				r.w.Until(patient, func() bool { return r.has("out" + n) })
				return r.text("out" + n), strings.Join(r.w.Upstream()[before:], "\n")
			}
			kill := "kill -9 $(" + strings.Join(r.variables(), " ") + " " + r.w.Cloister + " guardian status --json | sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p')"
			next := func() string {
				r.host(kill)
				if r.guardian != nil {
					_ = r.guardian.Wait() // it was killed
					if err := r.serve(); err != nil {
						return err.Error()
					}
				}
				text := ""
				r.w.Until(patient, func() bool {
					text = r.cloister("list").Stdout
					return strings.Contains(text, "running")
				})
				return text
			}
			said, sent := round("1")
			placeholder := "nothing"
			if _, rest, ok := strings.Cut(said, "the placeholder: "); ok {
				placeholder = strings.TrimSpace(rest)
			}
			out := []escape.Finding{
				found("control: read before, the secret goes out and does not come back", start.Status == 0 && strings.Contains(sent, canary) && strings.Contains(said, "you said "+placeholder) && !strings.Contains(said, canary),
					"%s; %s; sent: %s", start.Stderr, said, sent),
			}
			// The secret is another one from here on, and a server knows what it was.
			const renewed = "ghp_Second7f3aQxZvTmWkLpRsYnBgHdJcFuEoAiXw"
			set := r.host("printf %s " + renewed + " >" + r.base + "/value; chmod 600 " + r.base + "/value; " + strings.Join(r.variables(), " ") + " " + r.w.Cloister + " secret set TOKEN --file " + r.base + "/value")
			listed := next()
			said, sent = round("2")
			out = append(out,
				found("after a restart it is read again", strings.Contains(sent, renewed) && !strings.Contains(sent, "inspected: "+placeholder) && !strings.Contains(sent, placeholder), "%s; %s; sent: %s", listed, said, sent),
				found("the scrubber has the values", !strings.Contains(said, renewed) && strings.Contains(said, "you said "+placeholder), "%s%s", set.Stderr, said),
				found("and what the secret was before it was renewed", !strings.Contains(said, canary) && strings.Contains(said, "first said "+placeholder), "%s", said),
				found("and no other host gets any", !strings.Contains(sent, "other64"), "%s", sent))
			r.host("rm -f " + r.base + "/state/cloister/session.key")
			listed = next()
			said, sent = round("3")
			return append(out,
				found("without the sealed state it is refused, and never tunnelled", !strings.Contains(sent, placeholder) && !strings.Contains(said, canary) && !strings.Contains(sent, "other64") &&
					(strings.Contains(said, "error") || strings.Contains(said, "403") || strings.Contains(sent, canary)), "%s; %s; sent: %s", listed, said, sent))
		}),
	}
}
