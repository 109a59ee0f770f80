package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"cloister/mcp/serve"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// here runs what the tools ask for on this machine, in a folder of the test's.
type here struct {
	dir   string
	mu    sync.Mutex
	ports []serve.Port
}

func (h *here) Dir() string { return h.dir }

func (h *here) Run(ctx context.Context, c serve.Command) (int, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, append(os.Environ(), c.Env...), c.Stdin, c.Stdout, c.Stderr
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		err = context.Cause(ctx)
	}
	return cmd.ProcessState.ExitCode(), err
}

func (h *here) Publish(_ context.Context, port, host uint16) (uint16, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ports = append(h.ports, serve.Port{Port: port, HostPort: host})
	return host, nil
}

func (h *here) Ports() []serve.Port { return h.ports }

// client is one of the SDK's, connected to a server of ours.
func client(t *testing.T, judge serve.Judge) (*mcp.ClientSession, *here) {
	t.Helper()
	h := &here{dir: t.TempDir()}
	up, upW := io.Pipe()
	down, downW := io.Pipe()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- serve.Run(ctx, serve.Options{Version: "v0", Cloister: h, Judge: judge}, up, downW) }()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, nil).
		Connect(ctx, &mcp.IOTransport{Reader: down, Writer: upW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = upW.Close()
		cancel()
		_ = downW.Close()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return c, h
}

func allow(context.Context, serve.Call) (string, error) { return "", nil }

// call calls a tool and gives its text.
func call(t *testing.T, c *mcp.ClientSession, tool string, args map[string]any) (string, bool) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	var text strings.Builder
	for _, part := range r.Content {
		if p, ok := part.(*mcp.TextContent); ok {
			text.WriteString(p.Text)
		}
	}
	return text.String(), r.IsError
}

func TestTools(t *testing.T) {
	c, h := client(t, allow)
	if err := os.MkdirAll(filepath.Join(h.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	odd := "a b\nc//"
	type args = map[string]any
	for _, tc := range []struct {
		name, tool string
		args       args
		want       string
		failed     bool
	}{
		{"a line", "exec", args{"command": "echo out; echo err >&2; exit 3"}, "out\n\n[stderr]\nerr\n\n[exit status 3]", true},
		{"words", "exec", args{"argv": []string{"printf", "%s.", "a b", "$HOME"}}, "a b.$HOME.\n[exit status 0]", false},
		{"input", "exec", args{"command": "cat", "stdin": "words"}, "words\n[exit status 0]", false},
		{"variables", "exec", args{"command": "echo $A", "env": args{"A": "x y"}}, "x y\n\n[exit status 0]", false},
		{"a folder", "exec", args{"command": "pwd", "cwd": "sub"}, filepath.Join(h.dir, "sub") + "\n\n[exit status 0]", false},
		{"time", "exec", args{"command": "echo a; exec sleep 30", "timeout_seconds": 0.3}, "its time is over", true},
		{"much output", "exec", args{"command": "head -c 300000 /dev/zero | tr '\\0' x; echo end", "max_output_bytes": 100}, "[299904 bytes left out]", false},
		{"no text", "exec", args{"command": `printf 'a\377b'`}, "a\uFFFDb\n[exit status 0]", false},
		{"what a terminal obeys", "exec", args{"command": `printf 'a\033[2J\tb\302\233c'`}, `a\x1b[2J` + "\tb" + `\x9bc` + "\n[exit", false},
		{"nothing", "exec", args{}, "give either command or argv", true},
		{"both", "exec", args{"command": "true", "argv": []string{"true"}}, "give either command or argv", true},
		{"a bad variable", "exec", args{"command": "true", "env": args{"A=B": "x"}}, "cannot be a variable", true},
		{"a NUL", "exec", args{"argv": []string{"true", "a\x00b"}}, "has no NUL", true},
		{"for ever", "exec", args{"command": "true", "timeout_seconds": 1e12}, "at most 3600", true},
		{"a member in another case", "exec", args{"Command": "true"}, `no argument "Command"`, true},
		{"a null", "exec", args{"argv": []any{"true", nil}}, "argv is null, or holds one", true},
		{"another type", "exec", args{"command": 1}, "command is a number, not the string", true},
		{"a fraction", "read_file", args{"path": "sub", "limit": 1.5}, "limit is a number 1.5, not the integer", true},
		{"nothing to write", "write_file", args{"path": "x"}, "content is missing", true},
		{"an unknown member", "exec", args{"command": "true", "isolation": "none"}, "isolation", true},

		{"write", "write_file", args{"path": "new/deep/f.txt", "content": "one\n"}, "wrote 4 bytes", false},
		{"add", "write_file", args{"path": "new/deep/f.txt", "content": "two\n", "append": true}, "wrote 4 bytes", false},
		{"read", "read_file", args{"path": "new/deep/f.txt"}, "one\ntwo\n", false},
		{"a part", "read_file", args{"path": "new/deep/f.txt", "offset": 1, "limit": 3}, "ne\n\n[the file goes on: offset 4]", false},
		{"bytes", "write_file", args{"path": "bin", "content": "/wD+", "encoding": "base64"}, "wrote 3 bytes", false},
		{"bytes again", "read_file", args{"path": "bin"}, "/wD+", false},
		{"an odd name", "write_file", args{"path": "-n $(id) ;`x`", "content": "z"}, "wrote 1 bytes", false},
		{"an odd name again", "read_file", args{"path": "-n $(id) ;`x`"}, "z", false},
		{"no file", "read_file", args{"path": "none"}, "none", true},
		{"a folder as a file", "read_file", args{"path": "sub"}, "directory", true},
		{"a NUL in a path", "read_file", args{"path": "a\x00b"}, "has no NUL", true},
		{"a long path", "read_file", args{"path": strings.Repeat("a/", 4000)}, "4096 bytes at most", true},
		{"much of a device", "read_file", args{"path": "/dev/zero", "limit": 10}, "the file goes on: offset 10", false},
		{"no base64", "write_file", args{"path": "x", "content": "%", "encoding": "base64"}, "no base64", true},
		{"an odd entry", "write_file", args{"path": "list/" + strings.TrimSuffix(odd, "//"), "content": ""}, "wrote 0 bytes", false},
		{"list", "list_files", args{"path": "list"}, `"a b\nc"`, false},
		{"list nothing", "list_files", args{"path": "none"}, "none", true},

		{"publish", "publish_port", args{"port": 80, "host_port": 8080}, "127.0.0.1:8080", false},
		{"publish low", "publish_port", args{"port": 80, "host_port": 80}, "1024 to 65535", true},
		{"publish none", "publish_port", args{"port": 70000}, "1 to 65535", true},
		{"ports", "list_ports", args{}, "127.0.0.1:8080 -> 80", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, failed := call(t, c, tc.tool, tc.args)
			if failed != tc.failed || !strings.Contains(got, tc.want) {
				t.Errorf("failed %v, want %v; %.300q does not tell %q", failed, tc.failed, got, tc.want)
			}
		})
	}
}

// TestJudgedFirst holds that what the judge refuses, or cannot decide about, has no effect.
func TestJudgedFirst(t *testing.T) {
	for name, judge := range map[string]serve.Judge{
		"refused": func(context.Context, serve.Call) (string, error) { return "rule 7 says no", nil },
		"broken":  func(context.Context, serve.Call) (string, error) { return "", errors.New("rule 7 is gone") },
	} {
		t.Run(name, func(t *testing.T) {
			var calls []serve.Call
			c, h := client(t, func(ctx context.Context, c serve.Call) (string, error) {
				calls = append(calls, c)
				return judge(ctx, c)
			})
			for tool, args := range map[string]map[string]any{
				"exec": {"argv": []string{"touch", "a b"}}, "write_file": {"path": "made", "content": "x"}, "read_file": {"path": "."},
				"list_files": {}, "publish_port": {"port": 1}, "list_ports": {},
			} {
				got, failed := call(t, c, tool, args)
				if !failed || !strings.Contains(got, "rule 7") {
					t.Errorf("%s: failed %v, %q", tool, failed, got)
				}
			}
			if made, _ := os.ReadDir(h.dir); len(made) > 0 || len(h.ports) > 0 {
				t.Errorf("an effect: %v %v", made, h.ports)
			}
			if len(calls) != 6 {
				t.Errorf("%d calls were judged", len(calls))
			}
			for _, c := range calls {
				if c.Tool == "exec" && (c.Command != "touch 'a b'" || !strings.Contains(c.Arguments, `"touch"`)) {
					t.Errorf("judged was %+v", c)
				}
			}
		})
	}
}

// TestHostileFrames holds that what two readers could take for two things is no call, and
// that a server goes on after it where it can.
func TestHostileFrames(t *testing.T) {
	begin := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	run := func(args string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":` + args + `}}`
	}
	for name, tc := range map[string]struct {
		line  string
		lives bool
	}{
		"a key twice":      {run(`{"argv":["touch","made"],"argv":["true"]}`), true},
		"a method twice":   {`{"jsonrpc":"2.0","id":2,"method":"ping","method":"tools/call","params":{"name":"exec","arguments":{"command":"touch made"}}}`, true},
		"half a surrogate": {run(`{"command":"touch made # \ud800"}`), true},
		"no UTF-8":         {run("{\"command\":\"touch made # \xff\"}"), true},
		"deep":             {run(strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)), true},
		"no JSON":          {"Content-Length: 5", true},
		"two values":       {"{} " + run(`{"command":"touch made"}`), true},
		"without end":      {strings.Repeat("x", 5<<20), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &here{dir: t.TempDir()}
			in := strings.NewReader(strings.Join([]string{begin, tc.line, `{"jsonrpc":"2.0","id":3,"method":"ping"}`, ""}, "\n"))
			var out bytes.Buffer
			hold, release := io.Pipe() // the client's end stays open until it has its answers
			answers := make(chan error, 1)
			read, write := io.Pipe()
			go func() {
				lines := bufio.NewScanner(read)
				lines.Buffer(nil, 1<<20)
				for lines.Scan() {
					fmt.Fprintln(&out, lines.Text())
					if strings.Contains(lines.Text(), `"id":3`) {
						break
					}
				}
				answers <- lines.Err()
				_ = release.Close()
				_, _ = io.Copy(io.Discard, read)
			}()
			err := serve.Run(t.Context(), serve.Options{Version: "v0", Cloister: h, Judge: allow}, io.MultiReader(in, hold), write)
			_ = write.Close()
			if aerr := <-answers; err != nil || aerr != nil {
				t.Errorf("%v %v", err, aerr)
			}
			if made, _ := os.ReadDir(h.dir); len(made) > 0 {
				t.Errorf("an effect: %v", made)
			}
			if got := out.String(); !strings.Contains(got, "-32700") || strings.Contains(got, `"id":3`) != tc.lives {
				t.Errorf("answers %.600s", got)
			}
		})
	}
}

// TestProtocol holds what a client may send beside calls that the SDK's makes.
func TestProtocol(t *testing.T) {
	const begin = `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"1999-01-01"}}`
	for name, tc := range map[string]struct{ lines, want string }{
		"too early":             {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"id":1,"error":{"code":-32600,"message":"initialize comes first"}`},
		"an unknown revision":   {begin, `"id":"a","result":{"protocolVersion":"2025-11-25"`},
		"begun twice":           {begin + "\n" + begin, `"message":"initialize was answered before"`},
		"a ping before":         {`{"jsonrpc":"2.0","id":-3,"method":"ping"}`, `{"jsonrpc":"2.0","id":-3,"result":{}}`},
		"no such method":        {begin + "\n" + `{"jsonrpc":"2.0","id":1,"method":"x"}`, `"id":1,"error":{"code":-32601,`},
		"no such tool":          {begin + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, `"id":1,"error":{"code":-32602,`},
		"no parameters":         {begin + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `"id":1,"error":{"code":-32602,`},
		"a method in capitals":  {`{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`, ""},
		"an id that is null":    {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `"id":null,"error":{"code":-32600,`},
		"an id that is a float": {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `"id":null,"error":{"code":-32600,`},
		"another protocol":      {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, `"id":null,"error":{"code":-32600,`},
		"a batch":               {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `"id":null,"error":{"code":-32600,`},
		"a notification":        {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := serve.Options{Version: "v0", Cloister: &here{dir: "/"}, Judge: allow}
			if err := serve.Run(t.Context(), o, strings.NewReader(tc.lines), &out); err != nil {
				t.Error(err)
			}
			if got := out.String(); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestWaitingForAPerson holds that calls which wait for an answer keep no other from running.
func TestWaitingForAPerson(t *testing.T) {
	answered := make(chan struct{})
	c, _ := client(t, func(ctx context.Context, c serve.Call) (string, error) {
		if c.Tool == "publish_port" {
			select {
			case <-answered:
			case <-ctx.Done():
			}
		}
		return "", nil
	})
	var waiting sync.WaitGroup
	for range 40 { // more than run at once
		waiting.Go(func() { call(t, c, "publish_port", map[string]any{"port": 80}) })
	}
	if got, failed := call(t, c, "exec", map[string]any{"command": "echo on"}); failed || !strings.HasPrefix(got, "on") {
		t.Errorf("beside them: %q", got)
	}
	close(answered)
	waiting.Wait()
}

// TestUnreadAnswer holds that a client which reads no answers does not keep the server.
func TestUnreadAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		lines := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_ports"}}`
		go func() { _, _ = bufio.NewReader(read).ReadSlice('\n') }() // one, and no more
		o := serve.Options{Version: "v0", Cloister: &here{dir: "/"}, Judge: allow}
		if err := serve.Run(t.Context(), o, strings.NewReader(lines), write); err != nil {
			t.Error(err)
		}
		_ = read.Close()
	})
}

// TestCancelled holds that a call ends when its client wants no answer, and gets none.
func TestCancelled(t *testing.T) {
	c, h := client(t, allow)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "echo $$ >pid; exec sleep 60"}})
		ended <- err
	}()
	pid := ""
	for pid == "" {
		b, _ := os.ReadFile(filepath.Join(h.dir, "pid"))
		pid = strings.TrimSpace(string(b))
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	for { // the command is gone once its call has been cancelled
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if got, failed := call(t, c, "exec", map[string]any{"command": "echo on"}); failed || !strings.HasPrefix(got, "on") {
		t.Errorf("afterwards: %q", got)
	}
}

// FuzzRun holds that whatever a client sends, what it gets is lines of JSON, and nothing
// runs that was not judged.
func FuzzRun(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"command":"x"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var out bytes.Buffer
		no := func(context.Context, serve.Call) (string, error) { return "no", nil }
		_ = serve.Run(t.Context(), serve.Options{Version: "v0", Cloister: &here{dir: "/nosuch"}, Judge: no}, bytes.NewReader(text), &out)
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("wrote %q", line)
			}
		}
	})
}
