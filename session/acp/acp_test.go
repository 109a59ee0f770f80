package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cloister/sandbox"
	"cloister/session/acp"
)

// ends are an editor and an agent with a relay between them.
type ends struct {
	t              *testing.T
	editor, agent  *bufio.Reader
	toRelayEditor  *io.PipeWriter
	toRelayAgent   *io.PipeWriter
	mu             sync.Mutex
	uses           []acp.Use
	notices        []string
	refuseToRecord bool
}

func relayed(t *testing.T, change func(*acp.Options)) *ends {
	t.Helper()
	e := &ends{t: t}
	fromEditor, editorOut := io.Pipe()
	editorIn, toEditor := io.Pipe()
	fromAgent, agentOut := io.Pipe()
	agentIn, toAgent := io.Pipe()
	e.editor, e.agent = bufio.NewReaderSize(editorIn, 1<<20), bufio.NewReaderSize(agentIn, 1<<20)
	e.toRelayEditor, e.toRelayAgent = editorOut, agentOut
	o := acp.Options{
		Root: "/home/p", Main: "/home/main",
		Closed: func(path string, change bool) string {
			if strings.Contains(path, "closed") || change && strings.Contains(path, ".git/") {
				return "it is closed"
			}
			return ""
		},
		Named: func(v string) bool { return v == "NAMED" },
		Record: func(_ context.Context, u acp.Use) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.refuseToRecord {
				return errors.New("the disk is full")
			}
			e.uses = append(e.uses, u)
			return nil
		},
		Notice: func(text string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.notices = append(e.notices, text)
		},
	}
	if change != nil {
		change(&o)
	}
	done := make(chan error, 1)
	go func() {
		done <- acp.Run(t.Context(), o, acp.Ends{FromEditor: fromEditor, ToEditor: toEditor, FromAgent: fromAgent, ToAgent: toAgent}, func() {})
		_ = toEditor.Close()
	}()
	t.Cleanup(func() {
		_ = editorOut.Close()
		_ = agentOut.Close()
		if err := <-done; err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return e
}

// says has one end write a line.
func (e *ends) says(to io.Writer, line string) {
	e.t.Helper()
	go func() { _, _ = io.WriteString(to, line+"\n") }()
}

// gets is the next line of an end.
func (e *ends) gets(from *bufio.Reader) string {
	e.t.Helper()
	line, err := from.ReadString('\n')
	if err != nil {
		e.t.Fatalf("%q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// TestAgentSays is what an editor gets of what an agent writes: want, or nothing, or what
// the agent gets as an answer.
func TestAgentSays(t *testing.T) {
	update := func(u string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + u + `}}`
	}
	for name, c := range map[string]struct{ says, editor, agent string }{
		"a text":                 {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi","_meta":{"x":1}}}`), editor: update(`{"content":{"text":"hi","type":"text"},"sessionUpdate":"agent_message_chunk"}`)},
		"an image's address":     {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AA==","mimeType":"image/png","uri":"http://evil.example/"}}`), editor: update(`{"content":{"data":"AA==","mimeType":"image/png","type":"image"},"sessionUpdate":"agent_message_chunk"}`)},
		"a link out":             {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"n","uri":"file:///etc/x"}}`), editor: `[cloister: a link to \"file:///etc/x\" is not shown: it is not in the project]`},
		"a link with dots":       {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"n","uri":"file:///home/p/../x"}}`), editor: `is not shown: it is not in the project`},
		"a link with %2e":        {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"n","uri":"file:///home/p/%2e%2e/x"}}`), editor: `is not shown: it is not in the project`},
		"a link to a machine":    {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"n","uri":"file://evil.example/home/p/x"}}`), editor: `is neither on the web nor in the project`},
		"a link to a command":    {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"n","uri":"vscode://x"}}`), editor: `is neither on the web nor in the project`},
		"a link to what leads":   {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"n","uri":"file:///home/p/closed"}}`), editor: `is not shown: it is closed`},
		"a link of the project":  {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"n","uri":"file:///home/p/a"}}`), editor: `"uri":"file:///home/p/a"`},
		"an unknown block":       {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"widget","src":"file:///etc/x"}}`), editor: `content of the kind \"widget\"`},
		"a sibling's name":       {says: update(`{"sessionUpdate":"tool_call","toolCallId":"c","locations":[{"path":"/home/project-of-another"},{"path":"/home/p/a","line":2},{"path":"rel"}]}`), editor: `"locations":[{"line":2,"path":"/home/p/a"}]`},
		"a change of git's":      {says: update(`{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"diff","path":"/home/p/.git/hooks/x","newText":"x"}]}`), editor: `is not shown: it is closed`},
		"a terminal":             {says: update(`{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"terminal","terminalId":"t"}]}`), editor: `output of a command that the editor does not run`},
		"raw input whole":        {says: update(`{"sessionUpdate":"tool_call","toolCallId":"c","rawInput":{"_meta":"shown","k\u001b":"\u001b[2J"}}`), editor: `"rawInput":{"_meta":"shown","k\\x1b":"\\x1b[2J"}`},
		"members in other case":  {says: update(`{"sessionUpdate":"plan","SessionUpdate":"tool_call","entries":[]}`), editor: update(`{"entries":[],"sessionUpdate":"plan"}`)},
		"a question":             {says: `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"a","name":"Yes","kind":"allow_once","x":1}]}}`, editor: `"id":7,"method":"session/request_permission","params":{"options":[{"kind":"allow_once","name":"Yes","optionId":"a"}]`},
		"a question that hides":  {says: `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"a\u202eb\u200d","rawInput":{"k\u2060":"\ufeffx"}},"options":[{"optionId":"\u202e","name":"\u200bYes","kind":"allow_once"}]}}`, editor: `{"options":[{"kind":"allow_once","name":"\\u200bYes","optionId":"` + "\u202e" + `"}],"sessionId":"s","toolCall":{"rawInput":{"k\\u2060":"\\ufeffx"},"title":"a\\u202eb\\u200d","toolCallId":"c"}}`},
		"a text that turns":      {says: update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\u202eb\u2066c\u200f\u200d"}}`), editor: `"text":"a\\u202eb\\u2066c` + "\u200f\u200d" + `"`},
		"a file":                 {says: `{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"path":"/home/p/a"}}`, agent: `"id":7,"error":{"code":-32601`},
		"a terminal's output":    {says: `{"jsonrpc":"2.0","id":"x","method":"terminal/output","params":{"terminalId":"t"}}`, agent: `"id":"x","error":{"code":-32601`},
		"an unknown request":     {says: `{"jsonrpc":"2.0","id":7,"method":"_zed/run","params":{}}`, agent: `"id":7,"error":{"code":-32601`},
		"an id in other letters": {says: `{"jsonrpc":"2.0","id":"\u0061","method":"fs/read_text_file","params":{}}`, agent: `"id":"a","error"`},
		// Nothing of these goes on: the text that follows them is the next that arrives.
		"an unknown notice":  {says: `{"jsonrpc":"2.0","method":"terminal/create","params":{}}`},
		"an unknown update":  {says: update(`{"sessionUpdate":"open","path":"/etc/x"}`)},
		"an answer to none":  {says: `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"both at once":       {says: `{"jsonrpc":"2.0","id":1,"method":"session/update","result":{}}`},
		"a method twice":     {says: `{"jsonrpc":"2.0","id":1,"method":"session/update","method":"fs/read_text_file"}`},
		"a method by case":   {says: `{"jsonrpc":"2.0","id":1,"method":"session/update","Method":"fs/read_text_file"}`},
		"a batch":            {says: `[{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file"}]`},
		"an id that is null": {says: `{"jsonrpc":"2.0","id":null,"method":"fs/read_text_file"}`},
		"half a character":   {says: `{"jsonrpc":"2.0","method":"session/update","params":{"x":"\ud800"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			e := relayed(t, nil)
			last := update(`{"content":{"text":"last","type":"text"},"sessionUpdate":"agent_message_chunk"}`)
			e.says(e.toRelayAgent, c.says+"\n"+last)
			if c.agent != "" {
				if got := e.gets(e.agent); !strings.Contains(got, c.agent) {
					t.Errorf("the agent gets %s, want %s", got, c.agent)
				}
				if len(e.uses) != 1 || e.uses[0].Allowed {
					t.Errorf("recorded %+v, want one refusal", e.uses)
				}
			}
			got := e.gets(e.editor)
			if c.editor != "" {
				if !strings.Contains(got, c.editor) {
					t.Errorf("the editor gets %s, want %s", got, c.editor)
				}
				got = e.gets(e.editor)
			}
			if got != last {
				t.Errorf("the editor gets %s before %s", got, last)
			}
		})
	}
}

// TestEditorSays is what an agent gets of what an editor writes.
func TestEditorSays(t *testing.T) {
	session := func(cwd, servers string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[%s]}}`, cwd, servers)
	}
	for name, c := range map[string]struct{ says, agent, editor string }{
		"the project by its own folder": {says: session("/home/main/sub", ""), agent: `"cwd":"/home/p/sub"`},
		"another folder":                {says: session("/home", ""), editor: `"id":1,"error"`},
		"another by dots":               {says: session("/home/p/../q", ""), editor: `"id":1,"error"`},
		"no folder":                     {says: `{"jsonrpc":"2.0","id":1,"method":"session/new"}`, editor: `"id":1,"error"`},
		"an MCP server over ACP":        {says: session("/home/p", `{"type":"acp","id":"x","name":"n"}`), agent: `"mcpServers":[]`},
		"one with a password":           {says: session("/home/p", `{"type":"http","name":"n","url":"https://a:b@mcp.example.com/","headers":[]}`), agent: `"mcpServers":[]`},
		"one with a named variable":     {says: session("/home/p", `{"name":"n","command":"c","args":[],"env":[{"name":"NAMED","value":"1"}]}`), agent: `"command":"c"`},
		"one with odd variables":        {says: session("/home/p", `{"name":"n","command":"c","args":[],"env":{"TOKEN":"1"}}`), agent: `"mcpServers":[]`},
		"an unknown method":             {says: `{"jsonrpc":"2.0","id":1,"method":"providers/set","params":{}}`, editor: `"id":1,"error":{"code":-32601`},
		"no message":                    {says: `{"jsonrpc":"2.0","id":1,"id":2,"method":"session/new"}`, editor: `"id":null,"error":{"code":-32700`},
		"a login's data":                {says: `{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"m","_meta":{"key":"k"}}}`, agent: `"params":{"methodId":"m"}`},
		"a mentioned file":              {says: `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[{"type":"resource","resource":{"uri":"FILE:///home/main/a%20b#L1:2","text":"T"}}]}}`, agent: `{"name":"a b","type":"resource_link","uri":"file:///home/p/a%20b#L1:2"}`},
		"one of elsewhere":              {says: `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[{"type":"resource","resource":{"uri":"file:///etc/passwd","text":"T"}}]}}`, agent: `it is not in the project]`},
		"one without a scheme":          {says: `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[{"type":"resource","resource":{"uri":"/etc/passwd","text":"T"}}]}}`, agent: `it is not in the project]`},
		"what the editor has itself":    {says: `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[{"type":"resource","resource":{"uri":"zed:///thread/1","text":"T"}}]}}`, agent: `"text":"T"`},
	} {
		t.Run(name, func(t *testing.T) {
			e := relayed(t, nil)
			e.says(e.toRelayEditor, c.says)
			if c.editor != "" {
				if got := e.gets(e.editor); !strings.Contains(got, c.editor) {
					t.Errorf("the editor gets %s, want %s", got, c.editor)
				}
				return
			}
			if got := e.gets(e.agent); !strings.Contains(got, c.agent) || strings.Contains(got, `"TOKEN"`) {
				t.Errorf("the agent gets %s, want %s", got, c.agent)
			}
		})
	}
}

// TestInitialize keeps what the agent offers and what the editor can to what gives no power.
func TestInitialize(t *testing.T) {
	e := relayed(t, nil)
	e.says(e.toRelayEditor, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true},"terminal":true,"auth":{"terminal":true},"elicitation":{}}}}`)
	want := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false},"protocolVersion":1}}`
	if got := e.gets(e.agent); got != want {
		t.Errorf("the agent gets %s, want %s", got, want)
	}
	e.says(e.toRelayAgent, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true,"http":true},"providers":{}},"authMethods":[{"id":"a","name":"A","type":"terminal"},{"id":"b","name":"B","vars":[{"name":"K"}]},{"id":"c","name":"C"}],"_meta":{}}}`)
	want = `{"jsonrpc":"2.0","id":0,"result":{"agentCapabilities":{"mcpCapabilities":{"http":true,"sse":false}},"authMethods":[{"id":"c","name":"C"}],"protocolVersion":1}}`
	if got := e.gets(e.editor); got != want {
		t.Errorf("the editor gets %s, want %s", got, want)
	}
	e.says(e.toRelayEditor, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	e.gets(e.agent)
	e.says(e.toRelayAgent, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}`)
	if got := e.gets(e.editor); !strings.Contains(got, "speaks version 2") {
		t.Errorf("another version gives %s", got)
	}
}

// TestUnrecorded holds that a server which cannot be recorded does not go inside, and that
// a refusal stays one.
func TestUnrecorded(t *testing.T) {
	e := relayed(t, nil)
	e.refuseToRecord = true
	e.says(e.toRelayEditor, `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/home/p","mcpServers":[{"name":"n","command":"c","args":[],"env":[]}]}}`)
	if got := e.gets(e.editor); !strings.Contains(got, "the disk is full") {
		t.Errorf("the editor gets %s", got)
	}
	e.says(e.toRelayAgent, `{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{"command":"id"}}`)
	if got := e.gets(e.agent); !strings.Contains(got, `"error"`) {
		t.Errorf("the agent gets %s", got)
	}
}

// TestFlood bounds the records and notices of an agent that asks without end.
func TestFlood(t *testing.T) {
	e := relayed(t, nil)
	const n = 1500
	go func() {
		for i := range n {
			fmt.Fprintf(e.toRelayAgent, `{"jsonrpc":"2.0","id":%d,"method":"terminal/create","params":{"command":"id"}}`+"\n", i)
		}
	}()
	for range n {
		if got := e.gets(e.agent); !strings.Contains(got, `"error"`) {
			t.Fatal(got)
		}
	}
	if len(e.uses) != 1000 || !strings.Contains(e.uses[999].Reason, "without a record") {
		t.Errorf("%d records", len(e.uses))
	}
	if len(e.notices) != 32 {
		t.Errorf("%d notices", len(e.notices))
	}
}

// TestLongLine ends the relay of an agent whose line has no end, with an error.
func TestLongLine(t *testing.T) {
	from, to := io.Pipe()
	go func() {
		part := []byte(strings.Repeat("x", 1<<20))
		for range 10 {
			if _, err := to.Write(part); err != nil {
				return
			}
		}
	}()
	never, stop := io.Pipe()
	defer stop.Close()
	_, sink := io.Pipe()
	err := acp.Run(t.Context(), acp.Options{Notice: func(string) {}}, acp.Ends{FromEditor: never, ToEditor: io.Discard, FromAgent: from, ToAgent: sink}, func() {})
	if err == nil || !strings.Contains(err.Error(), "a line of more than") {
		t.Errorf("got %v", err)
	}
	_ = from.Close()
}

func TestPaths(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(base, "p")
	for _, dir := range []string{"p/sub", "out", "p/.git"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"p/a", "p/.env", "p/sub/.env", "p/covered", "out/secret"} {
		if err := os.WriteFile(filepath.Join(base, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"out": "../out", "abs": "/etc/passwd", "env": ".env", "in": "sub", "gone": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	covered := []sandbox.Protect{{Target: sandbox.GuestPath(filepath.Join(root, "covered")), File: true, Empty: true}}
	held := func(rel string) bool { return rel == ".git" || strings.HasPrefix(rel, ".git/") }
	p, err := acp.NewPaths(root, covered, held, []string{".env*"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"a": "", "sub": "", "new/deep/file": "", "in/new": "", ".git/config": "",
		"out/secret": "leads out", "out/new": "leads out", "abs": "leads out", "gone": "looked at", "a/x": "looked at",
		".env": "hide", "sub/.env": "hide", "env": "hide", "in/.env": "hide", "covered": "hide", ".env.local/x": "hide", "pipe": "no file",
	} {
		got := p.Closed(filepath.Join(root, path), false)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := p.Closed(filepath.Join(root, ".git/hooks/x"), true); got != "it is protected" {
		t.Errorf("a change of a hook: %q", got)
	}
}

// FuzzAgent: whatever an agent writes, the editor gets objects of known methods alone.
func FuzzAgent(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{"command":"id"}}`)
	f.Add(`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","content":[{"type":"diff"}]}}}`)
	f.Add(`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"plan","content":[]}}}`)
	f.Add(`{"jsonrpc":"2.0","id":"x","method":"session/request_permission","params":[1]}`)
	f.Fuzz(func(t *testing.T, line string) {
		var out strings.Builder
		never, stop := io.Pipe()
		defer stop.Close()
		_, sink := io.Pipe()
		_ = sink.Close()
		err := acp.Run(t.Context(), acp.Options{
			Root: "/p", Closed: func(string, bool) string { return "" }, Named: func(string) bool { return false },
			Record: func(context.Context, acp.Use) error { return nil }, Notice: func(string) {},
		}, acp.Ends{FromEditor: never, ToEditor: &out, FromAgent: strings.NewReader(line), ToAgent: sink}, func() {})
		if err != nil {
			t.Skip(err)
		}
		for got := range strings.Lines(out.String()) {
			var m struct{ Method string }
			known := []string{"session/update", "session/request_permission", "$/cancel_request"}
			if err := json.Unmarshal([]byte(got), &m); err != nil || !slices.Contains(known, m.Method) {
				t.Errorf("the editor gets %s: %v", got, err)
			}
		}
	})
}
