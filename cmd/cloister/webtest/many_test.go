//go:build linux

package webtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/audit"
)

// TestMany has the pages with what months leave: 200 sessions that ended, 2,000 events of
// 30 hosts, 40 rules beside a preset, a secret. What runs comes first and whole; hosts,
// rules and secrets lead to each other.
func TestMany(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	config, err := os.ReadFile(w.path("c/cloister/config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules strings.Builder
	for i := range 39 {
		fmt.Fprintf(&rules, "    - domain: host%d.example\n", i)
	}
	text := strings.Replace(string(config), "presets: []", "presets: [ai-apis, debian]", 1)
	text = strings.Replace(text, "  deny:\n", rules.String()+"  deny:\n", 1)
	text += "secrets:\n  - {name: TOKEN, hosts: [host3.example], header: X-Token}\n"
	w.write("c/cloister/config.yaml", text)

	var ended []api.SessionInfo
	for i := range 200 {
		at := time.Now().Add(time.Duration(-200+i) * time.Hour)
		status := i % 3
		ended = append(ended, api.SessionInfo{
			ID: fmt.Sprintf("%032x", i+1), Name: fmt.Sprintf("old-%d", i), Project: w.project, Agent: "claude", Isolation: "native",
			State: api.StateStopped, CreatedAt: at, StoppedAt: at.Add(time.Minute), ExitStatus: &status,
		})
	}
	state, err := json.Marshal(map[string]any{"version": 1, "sessions": ended})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(w.path("s/cloister"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("s/cloister/sessions.json", string(state))
	l, err := audit.Open(filepath.Join(w.dir, "s", "cloister", "audit"), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(e audit.Event) {
		t.Helper()
		e.Session, e.SessionID = "old-1", fmt.Sprintf("%032x", 2)
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	up, down := int64(10), int64(2000)
	for i := range 400 {
		host := fmt.Sprintf("host%d.example", i%30)
		rule := fmt.Sprintf("allow %s (%s:9:5)", host, w.path("c/cloister/config.yaml"))
		put(audit.Event{Kind: audit.NetDNS, Action: "resolve", Resource: host, Host: host, Verdict: "allow", Rule: rule, Reason: "A"})
		put(audit.Event{Kind: audit.NetDNS, Action: "resolve", Resource: host, Host: host, Verdict: "allow", Rule: rule, Reason: "AAAA"})
		put(audit.Event{Kind: audit.NetConnect, Action: "connect", Resource: host + ":443", Host: host, Port: 443, Verdict: "allow", Rule: rule})
		put(audit.Event{Kind: audit.NetConnect, Action: "close", Resource: host + ":443", Host: host, Port: 443, BytesUp: &up, BytesDown: &down})
		put(audit.Event{Kind: audit.NetConnect, Action: "connect", Resource: "bad.example:443", Host: "bad.example", Port: 443, Verdict: "deny", Reason: "no rule"})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	run := w.begin("run", "--name", "lives", "--", "sh", "-c", "sleep 600")
	tb.open(w)
	// What runs is first and whole; those that ended come in pages.
	tb.Wait(`document.querySelector('tbody tr strong') && document.querySelector('tbody tr strong').textContent === 'lives'`)
	rows := `document.querySelectorAll('section tbody tr').length`
	tb.Wait(rows + ` === 20`)
	if above := eval[bool](tb, `document.querySelector('[aria-label="Stop lives"]').getBoundingClientRect().bottom < innerHeight`); !above {
		t.Error("what runs is out of sight")
	}
	tb.Click(`section p button`)
	tb.Wait(rows + ` === 70`)
	for eval[bool](tb, `!document.querySelector('section p button').hidden`) {
		tb.Click(`section p button`)
	}
	tb.Wait(rows + ` === 200`)
	tb.shot("many-now")

	// Traffic by host: sums, refusals first, one line for a name's two questions.
	tb.visit("/traffic?range=all")
	tb.Wait(`document.querySelectorAll('.hosts tbody tr').length === 31`)
	tb.Wait(`document.querySelector('.hosts tbody tr').textContent.includes('bad.example')`)
	tb.Wait(`[...document.querySelectorAll('.row')].some((r) => r.textContent.includes('A, AAAA'))`)
	for eval[bool](tb, `!document.querySelector('main p button').hidden`) {
		before := eval[string](tb, `document.querySelector('main p .soft').textContent`)
		tb.Click(`main p button`)
		tb.Wait(`document.querySelector('main p .soft').textContent !== ` + quoted(before))
	}
	tb.Wait(`(() => { const r = [...document.querySelectorAll('.hosts tbody tr')].find((r) => r.firstChild.textContent === 'host3.example'); return r && r.children[2].textContent === '14' && r.children[5].textContent === '28 kB' && r.children[7].textContent.includes('TOKEN'); })()`)
	tb.Wait(`document.querySelector('.hosts tbody tr').children[1].textContent === '400'`)
	tb.shot("many-traffic")
	tb.axe("many-traffic")
	// From the host to its rule, from the rule to its traffic and its secret, and back.
	eval[bool](tb, `[...document.querySelectorAll('.hosts tbody tr')].find((r) => r.firstChild.textContent === 'host3.example').querySelectorAll('a')[0].click(), true`)
	tb.Wait(`location.pathname === '/policy' && location.search.includes('line=9') && document.querySelector('textarea') && document.querySelector('textarea').value.includes('host3.example')`)
	tb.visit("/policy")
	tb.Wait(`[...document.querySelectorAll('details.panel > summary strong')].filter((s) => s.textContent === 'preset ai-apis').length === 1`)
	panels := eval[int](tb, `document.querySelectorAll('details.panel').length`)
	if panels != 3 {
		t.Errorf("%d panels for config.yaml and two presets", panels)
	}
	panel := func(name string) string {
		return `[...document.querySelectorAll('details.panel')].find((p) => p.querySelector('summary').textContent.includes(` + quoted(name) + `))`
	}
	if n := eval[int](tb, panel("config.yaml")+`.querySelectorAll('.rule').length`); n < 40 {
		t.Errorf("config.yaml has %d rules on the page", n)
	}
	eval[bool](tb, panel("preset debian")+`.querySelector('summary').click(), true`)
	tb.Says("deb.debian.org")
	tb.shot("many-policy")
	tb.axe("many-policy")
	mine := `[...document.querySelectorAll('.rule')].find((r) => r.querySelector('strong') && r.querySelector('strong').textContent === 'host3.example')`
	eval[bool](tb, mine+`.querySelector('summary').click(), true`)
	tb.Wait(mine + `.querySelector('pre').checkVisibility()`)
	eval[bool](tb, `[...`+mine+`.querySelectorAll('a')].find((a) => a.textContent === 'TOKEN').click(), true`)
	tb.Wait(`location.pathname === '/secrets' && document.querySelector('.bound a')`)
	tb.Click(`.bound a`)
	tb.Wait(`location.pathname === '/traffic' && document.querySelectorAll('.row').length > 10 && [...document.querySelectorAll('.row')].every((r) => r.textContent.includes('host3.example'))`)
	tb.visit("/policy")
	tb.Wait(`document.querySelector('.rule')`)
	eval[bool](tb, `[...`+mine+`.querySelectorAll('a')].find((a) => a.textContent === 'Traffic').click(), true`)
	tb.Wait(`location.pathname === '/traffic' && document.querySelectorAll('.row').length > 10 && [...document.querySelectorAll('.row')].every((r) => r.textContent.includes('host3.example'))`)
	w.do("stop", "lives", "-t", "1s")
	run()
}
