package realtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestSRT asks the real srt command, where CLOISTER_SRT names it, and cloister srt for the
// same, and compares what they print and how they end.
func TestSRT(t *testing.T) {
	w := newWorld(t)
	real := need(t, "srt", os.Getenv("CLOISTER_SRT"))
	node := need(t, "node", "node")
	w.env["PATH"] = filepath.Dir(node) + ":" + w.env["PATH"]
	write(t, w.dir+"/s.json", `{"network": {"allowedDomains": [], "deniedDomains": []},
		"filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}`, 0o600)
	write(t, w.dir+"/extra.json", `{"network": {"allowedDomains": [], "deniedDomains": []},
		"filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}, "extra": 1}`, 0o600)
	write(t, w.dir+"/lists.json", `{"network": {}, "filesystem": {}}`, 0o600)
	w.configure()
	w.ran = true
	say := func(argv ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), storyTime)
		defer cancel()
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		c.Dir, c.Env = w.project, append(w.environ(), "PASSED=on")
		var out bytes.Buffer
		c.Stdout = &out
		var exit *exec.ExitError
		if err := c.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return strconv.Itoa(c.ProcessState.ExitCode()) + " " + out.String()
	}
	for _, words := range [][]string{
		{"-s", "../../../s.json", "-c", "exit 7"},
		{"-s", "../../../s.json", "-c", "kill -9 $$"},
		{"-s", "../../../s.json", "-c", "kill -15 $$"},
		{"-s", "../../../s.json", "not-a-program"},
		{"-s", "../../../s.json", "echo", "a  b", "$HOME", "it's"},
		{"-s", "../../../s.json", "-c", "echo $PASSED"},
		{"-s", "../../../s.json", "-c", "echo x >written && cat written"},
		{"-s", "../../../s.json", "-c", "echo x >/etc/written"},
		{"-s", "../../../absent.json", "true"},
		{"-s", "../../../extra.json", "true"},
		{"-s", "../../../lists.json", "true"},
		{"true"},
		{"-c", "echo x >unwritten"},
		{},
	} {
		want := say(append([]string{real}, words...)...)
		if got := say(append([]string{binary, "srt"}, words...)...); got != want {
			t.Errorf("srt %s: %q, and srt itself %q", strings.Join(words, " "), got, want)
		}
	}
}
