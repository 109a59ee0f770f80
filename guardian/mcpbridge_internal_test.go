//go:build linux

package guardian

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/api"
	"cloister/audit"
	"cloister/audit/recorder"
	"cloister/config"
	"cloister/guardian/hostcommands"
	"cloister/guardian/instance"
	"cloister/guardian/process"
	"cloister/guardian/sessionctx"
	"cloister/internal/peercred"
	"cloister/policy"
	"cloister/policyset"
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
	l := &live{g: &guardian{host: hostcommands.New(hostcommands.Options{})}, Context: sessionctx.Context{Info: api.SessionInfo{Project: project, Path: filepath.Join(root, "tree")}}, foreign: []string{shared}}
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
	for value, want := range map[string]string{file: file, "/usr/lib:" + project: project, "file://" + file: file} {
		_, err := l.serverCommand(config.MCPServer{Name: "s", Command: []string{"/bin/sh"}, Env: map[string]string{"PYTHONPATH": value}})
		if err == nil || err.Error() != "start the MCP server s: "+want+" of its variable PYTHONPATH lies where the cloister can write" {
			t.Errorf("PYTHONPATH=%s: %v", value, err)
		}
	}
	for _, arg := range []string{"", "-e", "mcp.py", "/", "/etc/passwd", other, project + "x", "https://a.example/b"} {
		if got := l.writableIn(arg); got != "" {
			t.Errorf("%q is refused for %s", arg, got)
		}
	}
}

// What a server on the host calls the guardian for is no person's word, as long as
// it runs.
func TestServerIsNoPerson(t *testing.T) {
	records, err := recorder.Open(filepath.Join(t.TempDir(), "audit"), slog.New(slog.DiscardHandler), func(audit.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := records.Close(); err != nil {
			t.Error(err)
		}
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := &guardian{ctx: t.Context(), o: Options{Helper: []string{self, "keep"}}, log: slog.New(slog.DiscardHandler), records: records, policies: policyset.NewHolder("", "", nil), host: hostcommands.New(hostcommands.Options{})}
	servers := []config.MCPServer{{
		Name: "s", Command: []string{"/bin/sh", "-c", `while read -r line; do sh -c 'setsid sleep 100 </dev/null >/dev/null 2>&1 & echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"pid\":$!}}"'; done`},
	}}
	l := &live{g: g, Context: sessionctx.Context{Info: api.SessionInfo{Project: "/nonexistent"}, Records: records}}
	l.ctx, l.cancel = context.WithCancel(t.Context())
	defer l.cancel()
	snapshot, err := policy.Compile(policy.Input{Unlisted: policy.Deny})
	if err != nil {
		t.Fatal(err)
	}
	l.Snapshot.Store(snapshot)
	l.Scope.Store(&policyset.Scope{Servers: servers})
	near, far := net.Pipe()
	for _, serve := range l.bridges() {
		serve(far)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://s/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	go func() { _ = req.Write(near) }()
	resp, err := http.ReadResponse(bufio.NewReader(near), req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var said struct{ Result struct{ PID int } }
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || said.Result.PID == 0 {
		t.Fatalf("%+v, %v", said, err)
	}
	of := func(pid int) bool {
		return g.ofHostCommand(req.WithContext(context.WithValue(t.Context(), instance.PeerKey{}, peercred.Cred{UID: os.Getuid(), PID: pid})))
	}
	if !of(said.Result.PID) {
		t.Error("what a server starts, and leaves in a session of its own, counts as a person")
	}
	if of(os.Getppid()) {
		t.Error("another process counts as a server's")
	}
	_ = near.Close()
	l.cancel()
	l.served.Wait()
	if n := g.host.Running(); n != 0 {
		t.Errorf("%d still count as running", n)
	}
	if parent, known := process.ParentOf(said.Result.PID); known {
		t.Errorf("what the server left lives on, below %d", parent)
	}
}
