package realtest

import (
	"os/exec"
	"testing"
	"time"
)

// TestHelp bounds what a person waits for when they ask for help, by the processor time
// of the best of many tries: how busy the machine is does not count. The peer is the same
// program saying one line, so that neither help nor what every command does first grows.
func TestHelp(t *testing.T) {
	const budget, tries = 20 * time.Millisecond, 100
	best := map[string]time.Duration{}
	for range tries {
		for _, word := range []string{"--help", "version"} {
			c := exec.CommandContext(t.Context(), binary, word)
			if out, err := c.CombinedOutput(); err != nil || len(out) == 0 {
				t.Fatalf("cloister %s: %v\n%s", word, err, out)
			}
			took := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
			if known, ok := best[word]; !ok || took < known {
				best[word] = took
			}
		}
		if best["--help"] <= budget && best["--help"] <= 2*best["version"] {
			t.Logf("--help takes %v of a processor, version %v", best["--help"], best["version"])
			return
		}
	}
	t.Errorf("--help takes %v of a processor at best, version %v; want %v and twice version's", best["--help"], best["version"], budget)
}
