//go:build linux

package guardian

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/api"
	"cloister/config"
)

// A server whose program would be the host's but whose arguments name a file that
// the cloister writes does not start: the file would be run in its place.
func TestServerArguments(t *testing.T) {
	root := t.TempDir()
	project, other, shared := filepath.Join(root, "p"), filepath.Join(root, "project"), filepath.Join(root, "shared")
	for _, dir := range []string{project, other, shared} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file, link := filepath.Join(project, "mcp.py"), filepath.Join(other, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	l := &live{g: &guardian{}, info: api.SessionInfo{Project: project, Path: filepath.Join(root, "tree")}, foreign: []string{shared}}
	for arg, want := range map[string]string{
		file: file, project: project, project + "/": project, other + "/../p/mcp.py": file, link: file,
		"--x=" + file: file, "-I" + project: project, file[1:]: file,
		filepath.Join(root, "tree", "a"): filepath.Join(root, "tree", "a"), shared + "/new": shared + "/new",
	} {
		_, err := l.serverCommand(config.MCPServer{Name: "s", Command: []string{"/bin/sh", "-e", arg}})
		if msg := "start the MCP server s: " + want + " lies where the cloister can write"; err == nil || err.Error() != msg {
			t.Errorf("%s: %v, want %s", arg, err, msg)
		}
	}
	for _, arg := range []string{"", "-e", "mcp.py", "/", "/etc/passwd", other, project + "x", "https://a.example/b"} {
		if got := l.writableIn(arg); got != "" {
			t.Errorf("%q is refused for %s", arg, got)
		}
	}
}
