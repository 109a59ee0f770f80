package corpus

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"cloister/escape"
)

func se20a() escape.Case {
	config := func(w *escape.World) string {
		at := `"127.0.0.1:` + itoa(w.Secure) + `"`
		return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  upstream_ca: [\"" + w.Base + "/authority.pem\"]\n" +
			"  ask:\n    - {domain: bound.test, paths: [\"/ok/**\"]}\n    - {domain: unbound.test, ports: [5432]}\n" +
			"  hosts: {bound.test: " + at + ", unbound.test: " + at + ", tools.test: " + at + "}\n" +
			"mcp:\n  servers:\n    - {name: tools, url: \"https://tools.test/ok/mcp\", ask_tools: [write]}\n"
	}
	return escape.Case{
		ID: "SE-20a", Class: "what a question shows", Attack: "a harmless beginning and the harm behind it: at the end of a long path, in the query, in the body, in a tool's " +
			"long arguments, in a second request behind the same question; a request too long to be shown",
		Source: "issue 16, second audit", Layers: []string{"approval"}, Needs: gate(),
		Host: with(config, together(func(r *ruled) []escape.Finding {
			say := func(text string) string { return r.w.Self + " say tls:bound.test '" + text + "'" }
			long := "/ok/" + strings.Repeat("harmless/", 300) + "harm20a"
			body, much := strings.Repeat("x", 700)+"harm20c", strings.Repeat("harmless", 8<<10)+"harm20e"
			call := rpc("tools.test", "/ok/mcp", "tools/call", `{"name":"write","arguments":{"text":"`+strings.Repeat("harmless ", 300)+`harm20d"}}`)
			return r.watched(func() []escape.Finding {
				var out []escape.Finding
				for _, c := range []struct {
					name, script string
					shown        []string
				}{
					{"a long path", say(get("bound.test", long)), []string{long}},
					{"a query", say(get("bound.test", "/ok/find?a=harmless&b=harm20b")), []string{"/ok/find", "a=harmless&b=harm20b"}},
					{"a body", say(post("bound.test", "/ok/write", body, "Content-Type: text/plain")),
						[]string{"POST /ok/write", "707 bytes, " + digest(body)}},
					{"a long body", say(post("bound.test", "/ok/write", much)), []string{"more than 64 KiB: the first 65536 bytes have " +
						digest(much[:64<<10]), "65543 bytes are declared", "no answer is bound to them"}},
					{"what is behind a body", say("POST /ok/write HTTP/1.1\r\nHost: bound.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n" +
						"2\r\nab\r\n1\r\nc\r\n0\r\nX-End: harm20f\r\n\r\n"), []string{"3 bytes, " + digest("abc"), "X-End", "harm20f"}},
					{"a tool's arguments", r.w.Self + " say tls:tools.test '" + call + "'", []string{"harm20d", "sha256:"}},
				} {
					before := len(r.w.Upstream())
					id := r.asked(c.script)
					show := r.cloister("approvals", "show", id)
					held := id != "" && show.Status == 0 && strings.Contains(show.Stdout, "waiting: 1")
					for _, text := range c.shown {
						held = held && strings.Contains(show.Stdout, text)
					}
					waits := len(r.w.Upstream()) == before || !strings.Contains(strings.Join(r.w.Upstream()[before:], "\n"), "harm20")
					out = append(out,
						found(c.name+": the question has all of it", held, "%q: %.400s … %.400s", id, show.Stdout, end(show.Stdout, 400)),
						found(c.name+": nothing of it went out before", waits, ""),
						found(c.name+": every scope says what it is for", scoped(show.Stdout), "%s", end(show.Stdout, 600)))
					status, text := r.approved(id)
					sent := strings.Join(r.w.Upstream()[before:], "\n")
					out = append(out, found(c.name+": control: approved, it goes", status == "0" && (strings.Contains(sent, "harm20") || strings.Contains(sent, "called: write") || strings.Contains(sent, "707")),
						"%s %.300s; sent %.300s", status, text, end(sent, 600)))
				}
				return append(out, r.tooLong(say(get("bound.test", "/ok/"+strings.Repeat("q", 8)+"?"+strings.Repeat("harmless&", 3000)))), r.changed(), r.together())
			})
		})),
	}
}

// changed is a request that is approved with one body, and sent once more with another.
func (r *ruled) changed() escape.Finding {
	clean(r.project+"/out", r.project+"/status")
	before := len(r.w.Upstream())
	one, other := "the body that is shown", "THE BODY THAT IS LATER"
	r.started(r.w.Self + " say tls:bound.test '" + post("bound.test", "/ok/write", one) + "' '" + post("bound.test", "/ok/write", other) + "'")
	var shown []string
	for _, answer := range []string{"approve", "deny"} {
		id := r.anyQuestion()
		shown = append(shown, r.cloister("approvals", "show", "--json", id).Stdout)
		r.cloister("approvals", answer, id)
		r.w.Until(patient, func() bool { return !slices.Contains(r.questions(), id) })
	}
	_, text := r.ended()
	sent := strings.Join(r.w.Upstream()[before:], "\n")
	return found("an answer for one body releases no other, and releases that one (control)",
		strings.Contains(shown[0], digest(one)) && strings.Contains(shown[1], digest(other)) &&
			strings.Contains(sent, one) && !strings.Contains(sent, other) && strings.Contains(text, "HTTP/1.1 403"),
		"shown %.900s; sent %.400s; %.400s", shown, end(sent, 400), text)
}

// digest is that of a body, as a person is shown it.
func digest(body string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body))) }

// tooLong is a request that cannot be shown whole: no question, and words that say why.
func (r *ruled) tooLong(script string) escape.Finding {
	clean(r.project+"/out", r.project+"/status")
	r.started(script)
	r.w.Until(patient, func() bool { return r.has("status") || len(r.questions()) > 0 })
	ids := r.questions()
	for _, id := range ids {
		r.cloister("approvals", "deny", id)
	}
	_, text := r.ended()
	return found("what is too long to be shown is refused, with the reason", len(ids) == 0 && strings.Contains(text, "HTTP/1.1 403") && strings.Contains(text, "bytes"), "%q %.600s", ids, text)
}

// together are three connections that wait behind one question.
func (r *ruled) together() escape.Finding {
	clean(r.project+"/out", r.project+"/status")
	one := r.w.Self + " say tcp:unbound.test:5432 x"
	r.started(fmt.Sprintf("(%s) & (%[1]s) & (%[1]s) & wait", one))
	var shown string
	r.w.Until(patient, func() bool {
		if ids := r.questions(); len(ids) == 1 {
			shown = r.cloister("approvals", "show", ids[0]).Stdout
		}
		return strings.Contains(shown, "waiting: 3") || r.has("status")
	})
	for _, id := range r.questions() {
		r.cloister("approvals", "deny", id)
	}
	r.ended()
	return found("the question says how many wait behind it", strings.Contains(shown, "waiting: 3"), "%s", shown)
}

// scoped tells whether every scope that is offered has a line that says what it covers.
func scoped(shown string) bool {
	_, rest, ok := strings.Cut(shown, "scopes: ")
	line, covers, _ := strings.Cut(rest, "\n")
	for scope := range strings.SplitSeq(line, ", ") {
		ok = ok && strings.Contains("\n"+covers, "\n"+scope+": ")
	}
	return ok
}

// end is the last part of a text.
func end(text string, most int) string { return text[max(0, len(text)-most):] }
