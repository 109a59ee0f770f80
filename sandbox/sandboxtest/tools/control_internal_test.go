package tools

import (
	"os"
	"os/exec"
	"testing"
)

// TestControl runs each script on this machine itself, with nothing around it: one that works nowhere proves nothing
// by not working in a cloister. Those of an engine need one, which DOCKER_HOST names.
func TestControl(t *testing.T) {
	if os.Getenv(whole) == "" {
		t.Skip("a usual machine lacks tools: script/test tools installs them")
	}
	for _, tool := range table() {
		if tool.name == "docker compose" {
			continue // Debian 12 packages none that the script could call; TestCompose has its own
		}
		t.Run(tool.name, func(t *testing.T) {
			if name := lacking("/", tool.needs); name != "" {
				t.Fatalf("there is no %s", name)
			}
			c := exec.CommandContext(t.Context(), "sh", "-c", tool.script)
			c.Dir = t.TempDir()
			if said, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
}
