package realtest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"cloister/audit"
)

// TestForkedFiveWays forks the memory of a real agent that waits for a command of its own: each
// fork goes on with the same conversation, by its own name, under its own session.
func TestForkedFiveWays(t *testing.T) {
	kernel := os.Getenv("CLOISTER_GVISOR")
	if os.Getenv("CLOISTER_TEST_LONG") == "" || kernel == "" {
		t.Skip("six agents on gVisor: CLOISTER_TEST_LONG=1, and CLOISTER_GVISOR names the folder of cloister-gvisor")
	}
	w := newWorld(t)
	t.Cleanup(w.stopAll)
	w.agent("claude")
	w.env["PATH"] += ":" + kernel
	w.write(w.project, "README.md", "# A task\n")
	w.host("git", "add", ".")
	w.host("git", "commit", "-qm", "start")
	api := &messagesAPI{has: "Bash", last: "Each went its own way.", steps: []step{
		{"Bash", map[string]any{"command": "touch waits; until test -e go; do sleep 0.1; done; echo WENT-ON", "description": "Wait", "timeout": 590_000}},
		{"Bash", map[string]any{"command": "echo host=$(hostname) random=$(od -An -tx1 -N16 /dev/urandom | tr -d ' ') >mine", "description": "Say who it is"}},
	}}
	w.net.handle("api.anthropic.com", api)
	w.setUp("claude", canaryKey)
	do := func(words ...string) string {
		res := w.cloister(t.Context(), words...)
		if res.status != 0 {
			t.Fatalf("cloister %s: status %d\n%s%s%s", strings.Join(words, " "), res.status, res.stdout, res.stderr, w.journal())
		}
		return res.stdout
	}
	do("run", "-d", "--name", "k", "--isolation", "gvisor", "--workspace", "overlay", "--",
		"claude", "--dangerously-skip-permissions", "-p", "Find out who you are.")
	waitFor(t, "the agent's first command", func() bool {
		return w.cloister(t.Context(), "exec", "k", "--", "test", "-e", "waits").status == 0
	})
	refused := w.cloister(t.Context(), "fork", "k", "--memory")
	if refused.status == 0 || !strings.Contains(refused.stderr, "claude") {
		t.Errorf("a fork of an agent whose random values are not proven: status %d, %s", refused.status, refused.stderr)
	}
	do("fork", "k", "--memory", "--count", "5", "--accept", "residue:fork-randomness")
	names := []string{"k"}
	for i := range 5 {
		names = append(names, fmt.Sprintf("k-%d", i+1))
	}
	for _, name := range names {
		do("exec", name, "--", "touch", "go")
	}
	random := map[string]string{}
	for _, name := range names {
		waitFor(t, "the last words of "+name, func() bool { return strings.Contains(do("logs", name), api.last) })
		found := regexp.MustCompile(`\+host=(\S+) random=([0-9a-f]{32})\n`).FindStringSubmatch(do("diff", name))
		if found == nil || found[1] != name {
			t.Errorf("%s took itself for %q", name, found)
			continue
		}
		if other, ok := random[found[2]]; ok {
			t.Errorf("%s and %s drew %s", name, other, found[2])
		}
		random[found[2]] = name
	}
	swapped, sessions := map[string]int{}, map[string]bool{}
	for _, e := range w.events() {
		if e.Kind == audit.SecretUse && e.Action == "swap" && e.Verdict == "allow" {
			swapped[e.Session]++
			sessions[e.SessionID] = true
		}
	}
	for _, name := range names {
		if swapped[name] == 0 {
			t.Errorf("%s asked the model nothing by the placeholder in its memory that is recorded as its own:\n%s", name, w.journal())
		}
	}
	if len(sessions) < len(names) {
		t.Errorf("%d sessions asked the model, want %d: %v", len(sessions), len(names), sessions)
	}
	api.check(t, canaryKey)
	for key := range api.keys {
		if key != canaryKey && key != "" { // one question of its start has none
			t.Errorf("the API saw the key %q", key)
		}
	}
	for _, name := range names {
		w.cloister(t.Context(), "discard", name)
	}
}
