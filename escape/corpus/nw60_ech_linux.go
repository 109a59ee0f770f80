package corpus

import (
	"encoding/hex"
	"strings"

	"cloister/escape"
)

func nw60() escape.Case {
	config := func(w *escape.World) string {
		at := "\"127.0.0.1:" + itoa(w.Secure) + "\""
		return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  upstream_ca: [\"" + w.Base + "/authority.pem\"]\n" +
			"  allow: [{domain: unbound.test}, {domain: tools.test, tls: tunnel}]\n  hosts: {unbound.test: " + at + ", tools.test: " + at + ", bound.test: " + at + "}\n"
	}
	return escape.Case{
		ID: "NW-60", Class: "encrypted client hello", Attack: "a program brings its own configuration, and hides a name that is denied in the ClientHello to one that is allowed, inspected or tunnelled",
		Source: "issue 16, second audit; RFC 9849", Layers: []string{"policy"}, Needs: gate(),
		Host: with(config, together(func(r *ruled) []escape.Finding {
			const inner = "bound.test"
			reached := func(run func(words ...string) escape.Result, to, text string) (string, escape.Result) {
				before := len(r.w.Upstream())
				res := run("say", to, text)
				return strings.Join(r.w.Upstream()[before:], "\n"), res
			}
			outside := func(words ...string) escape.Result {
				res, err := r.w.Exec(r.w.Self, words...)
				if err != nil {
					res.Stderr += err.Error()
				}
				return res
			}
			hidden := func(at, public, inner string) string {
				return "ech:" + at + "/" + inner + "/" + hex.EncodeToString(r.w.Hiding(public))
			}
			var out []escape.Finding
			for _, public := range []string{"unbound.test", "tools.test"} {
				sent, res := reached(outside, hidden("127.0.0.1:"+itoa(r.w.Secure), public, inner), get(inner, "/ok/hidden60"))
				out = append(out, found("control: outside the hidden name is reached behind "+public, strings.Contains(sent, "Host "+inner), "%s %s; sent: %s", res.Stdout, res.Stderr, sent))
				for name, text := range map[string]string{"asking for the hidden name": get(inner, "/ok/hidden60"), "asking for the outer name": get(public, "/ok/hidden60")} {
					sent, res := reached(r.inside, hidden(public+":443", public, inner), text)
					out = append(out, found("hidden behind "+public+", "+name, !strings.Contains(sent, "hidden60"), "%s %s; sent: %s", res.Stdout, res.Stderr, sent))
				}
				// What hides nothing but its own name may pass, read, and never to another.
				sent, res = reached(r.inside, hidden(public+":443", public, public), get(inner, "/ok/hidden60"))
				out = append(out, found("its own name hidden, and another asked for, at "+public, !strings.Contains(sent, "Host "+inner), "%s %s; sent: %s", res.Stdout, res.Stderr, sent))
				sent, res = reached(r.inside, "tls:"+public, get(public, "/ok/plain60"))
				out = append(out, found("control: without it "+public+" is reached", strings.Contains(sent, "plain60"), "%s %s; sent: %s", res.Stdout, res.Stderr, sent))
			}
			return out
		})),
	}
}
