package corpus

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"cloister/escape"
	"cloister/escape/hoard"
)

func nw63() escape.Case {
	const most, peers, seconds = 256, 150, 2 // MiB; in each of two sessions
	return escape.Case{
		ID: "NW-63", Class: "guardian memory", Attack: "two sessions with a secret have a guardian hold what it can: answers that nobody reads, windows of zero, bodies, heads and handshakes without end, servers that read nothing, floods of pings and resets",
		Source: "issue 16, second audit; RFC 9113 10.5", Layers: []string{"budget"}, Needs: gate(),
		Host: vaulted(func(r *ruled) []escape.Finding {
			relayed := r.host(fmt.Sprintf("%s hoard relay 127.0.0.1:%d bound.test 90 unread 50", r.w.Self, r.w.Secure))
			var control int
			_, err := fmt.Sscanf(relayed.Stdout, "at most %d MiB", &control)
			out := []escape.Finding{found("control: a relay without bounds comes to more", err == nil && control > most, "%s%s", relayed.Stdout, relayed.Stderr)}
			one := "run -d -C " + r.project + " --expose " + r.w.Self + ":ro -- sh -c '" + r.w.Self
			alone := r.inside("say", "tls:unbound.test", get("unbound.test", "/ok/alone"))
			quiet := r.memory()
			out = append(out, found("control: alone it is served, by little", strings.Contains(alone.Stdout, "sunk") && quiet > 0 && quiet < most/2, "%d MiB; %s", quiet, alone.Stderr))
			for _, kind := range hoard.Kinds() {
				clean(r.project+"/out1", r.project+"/out2")
				for _, n := range []string{"1", "2"} {
					words := fmt.Sprintf("%s hoard %s bound.test /ok/hoard/ %d %d >/work/new%s; mv /work/new%[5]s /work/out%[5]s'", one, kind.Name, peers, seconds, n)
					if res := r.host(strings.Join(r.variables(), " ") + " " + r.w.Cloister + " " + words); res.Status != 0 {
						out = append(out, found("start peers", false, "%s", res.Stderr))
					}
				}
				beside := r.inside("say", "tls:unbound.test", get("unbound.test", "/ok/beside"))
				r.w.Until(2*time.Minute, func() bool { return r.has("out1") && r.has("out2") })
				had := r.memory()
				out = append(out,
					found("peers of which each "+kind.Does, had > 0 && had <= most, "%d MiB, %d before; on %s and %s", had, quiet, r.text("out1"), r.text("out2")),
					found("another session beside: "+kind.Name, strings.Contains(beside.Stdout, "sunk"), "%s%s", beside.Stdout, beside.Stderr))
			}
			return out
		}),
	}
}

// memory is the most that the guardian had, in MiB.
func (r *ruled) memory() int {
	_, rest, _ := strings.Cut(r.cloister("guardian", "status", "--json").Stdout, `"pid": `)
	pid, _, _ := strings.Cut(rest, ",")
	text, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ = strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kib, _ := strconv.Atoi(strings.TrimSpace(line))
	return kib >> 10
}
