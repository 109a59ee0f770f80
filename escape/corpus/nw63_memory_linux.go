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

// hoarders is how many peers each of two sessions has, for how long, and what a guardian
// may come to. Those about whose bodies a person is asked stay until a question was seen,
// and no longer than askedSeconds.
const hoarders, hoardSeconds, askedSeconds, hoardMost = 150, 2, 110, 256 // the last in MiB

func nw63() escape.Case {
	config := func(w *escape.World) string {
		return strings.Replace(secretive(w), "  allow:\n", "  ask:\n    - {domain: bound.test, paths: [\"/ok/hoard/asked/**\"]}\n  allow:\n", 1)
	}
	return escape.Case{
		ID: "NW-63", Class: "guardian memory", Attack: "two sessions with a secret have a guardian hold what it can: answers that nobody reads, windows of zero, bodies, heads and handshakes without end, " +
			"bodies about which a person is asked, servers that read nothing, floods of pings and resets",
		Source: "issue 16, second audit; RFC 9113 10.5", Layers: []string{"budget"}, Needs: gate(),
		Host: withSecret(config, func(r *ruled) []escape.Finding {
			relayed := r.host(fmt.Sprintf("%s hoard relay 127.0.0.1:%d bound.test 90 unread 50", r.w.Self, r.w.Secure))
			var control int
			_, err := fmt.Sscanf(relayed.Stdout, "at most %d MiB", &control)
			out := []escape.Finding{found("control: a relay without bounds comes to more", err == nil && control > hoardMost, "%s%s", relayed.Stdout, relayed.Stderr)}
			alone := r.inside("say", "tls:unbound.test", get("unbound.test", "/ok/alone"))
			quiet := r.memory()
			out = append(out, found("control: alone it is served, by little", strings.Contains(alone.Stdout, "sunk") && quiet > 0 && quiet < hoardMost/2, "%d MiB; %s", quiet, alone.Stderr))
			for _, kind := range hoard.Kinds() {
				out = append(out, r.hoards(kind, quiet, nil)...)
			}
			return append(out, r.watched(func() (out []escape.Finding) {
				for _, kind := range hoard.Asking() {
					most, shown := 0, 0
					out = append(out, r.hoards(kind, quiet, func() {
						waiting := 0
						for _, a := range r.pending() {
							waiting += a.Waiting
							if strings.Contains(fmt.Sprint(a.Details), "49152 bytes") {
								shown++
							}
						}
						most = max(most, waiting)
						if most > 0 && shown > 0 && !r.has("shown") {
							_ = r.w.Write(r.project+"/shown", "") // else they stay until their time is over
						}
					})...)
					out = append(out, found("control: a person is asked about bodies: "+kind.Name, most > 0 && shown > 0, "%d waited at once, %d shown", most, shown))
				}
				return out
			})...)
		}),
	}
}

// hoards has peers of a kind in two sessions. Where there is something to look at meanwhile,
// they stay until that makes the file shown.
func (r *ruled) hoards(kind hoard.Kind, quiet int, look func()) (out []escape.Finding) {
	one := "run -d -C " + r.project + " --expose " + r.w.Self + ":ro -- sh -c '" + r.w.Self
	clean(r.project+"/out1", r.project+"/out2", r.project+"/shown")
	seconds := hoardSeconds
	if look != nil {
		seconds = askedSeconds
	}
	for _, n := range []string{"1", "2"} {
		words := fmt.Sprintf("%s hoard %s bound.test /ok/hoard/ %d %d >/work/new%s & while kill -0 $! && [ ! -e /work/shown ]; do sleep 0.1; done; kill $!; wait $!; mv /work/new%[5]s /work/out%[5]s'",
			one, kind.Name, hoarders, seconds, n)
		if res := r.host(strings.Join(r.variables(), " ") + " " + r.w.Cloister + " " + words); res.Status != 0 {
			out = append(out, found("start peers", false, "%s", res.Stderr))
		}
	}
	beside := r.inside("say", "tls:unbound.test", get("unbound.test", "/ok/beside"))
	r.w.Until(2*time.Minute, func() bool {
		if look != nil {
			look()
		}
		return r.has("out1") && r.has("out2")
	})
	had := r.memory()
	return append(out,
		found("peers of which each "+kind.Does, had > 0 && had <= hoardMost, "%d MiB, %d before; on %s and %s", had, quiet, r.text("out1"), r.text("out2")),
		found("another session beside: "+kind.Name, strings.Contains(beside.Stdout, "sunk"), "%s%s", beside.Stdout, beside.Stderr))
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
