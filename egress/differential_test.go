//go:build differential

package egress_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/egress/verdict"
	"cloister/internal/reading"
)

// A peer is a real server that answers with what it obeyed.
type peer struct {
	name    string
	command func(t *testing.T, dir string, port int) *exec.Cmd
	version []string // a command that prints it, where the server does not
	tools   bool     // it is an MCP server with one tool
}

var peers = []peer{
	{name: "nginx", command: configured("nginx", "nginx.conf", "-c"), version: []string{"nginx", "-v"}},
	{name: "Apache", command: configured("apache2", "apache.conf", "-X", "-f"), version: []string{"apache2", "-v"}},
	{name: "express", command: program("node", "server.cjs", "express")},
	{name: "Flask", command: program(debianPython, "server.py", "werkzeug")},
	{name: "Django", command: program(debianPython, "server.py", "django")},
	{name: "WebOb", command: program(debianPython, "server.py", "webob")},
	{name: "MCP", command: program("node", "server.cjs", "mcp"), tools: true},
	{name: "MCP behind method-override", command: program("node", "server.cjs", "mcp-override"), tools: true},
	{name: "MCP behind express.json", command: program("node", "server.cjs", "mcp-parsed"), tools: true},
}

// debianPython is the one that has Debian's packages.
const debianPython = "/usr/bin/python3"

const samples = "testdata/differential"

func program(words ...string) func(*testing.T, string, int) *exec.Cmd {
	return func(t *testing.T, _ string, port int) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), words[0], filepath.Join(samples, words[1]), words[2], strconv.Itoa(port))
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	}
}

func configured(program, file string, flags ...string) func(*testing.T, string, int) *exec.Cmd {
	return func(t *testing.T, dir string, port int) *exec.Cmd {
		text, err := os.ReadFile(filepath.Join(samples, file))
		if err != nil {
			t.Fatal(err)
		}
		config := strings.NewReplacer("DIR", dir, "PORT", strconv.Itoa(port)).Replace(string(text))
		at := filepath.Join(dir, file)
		if err := os.WriteFile(at, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.CommandContext(t.Context(), program, append(flags, at)...)
	}
}

// start gives the address of a peer that answers, and its version. A port that is free
// may be taken before the peer has it: then there is another try.
func (p *peer) start(t *testing.T) (addr, version string) {
	t.Helper()
	var text string
	for range 5 {
		if addr, version, text = p.once(t); addr != "" {
			return addr, version
		}
	}
	t.Fatalf("%s does not answer: %s", p.name, text)
	return "", ""
}

func (p *peer) once(t *testing.T) (addr, version, text string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr)
	l.Close()
	cmd := p.command(t, t.TempDir(), at.Port)
	var out printed
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // a signal ends it, or its port was taken
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			return "", "", out.String()
		default:
		}
		if p.version == nil && !strings.Contains(out.String(), "READY ") {
			continue
		}
		if c, err := net.Dial("tcp", at.String()); err == nil {
			c.Close()
			return at.String(), p.says(t, out.String()), ""
		}
	}
	return "", "", out.String()
}

// says is the version that a peer prints.
func (p *peer) says(t *testing.T, printed string) string {
	if p.version == nil {
		_, version, _ := strings.Cut(printed, "READY ")
		version, _, _ = strings.Cut(version, "\n")
		return version
	}
	text, err := exec.CommandContext(t.Context(), p.version[0], p.version[1:]...).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(text), ": ")
	version, _, _ = strings.Cut(version, "\n")
	return version
}

// obeyed is what a server says that it took a request for.
type obeyed struct{ Method, Path, Host, Tool string }

func parseObeyed(answer string) (o obeyed, ok bool) {
	if strings.Contains(answer, `\"tool\"`) { // a string within the frame of MCP
		answer = strings.ReplaceAll(answer, `\"`, `"`)
	}
	_, text, ok := strings.Cut(answer, "OBEYED ")
	if !ok {
		return o, false
	}
	if strings.HasPrefix(text, "{") {
		ok = json.NewDecoder(strings.NewReader(text)).Decode(&o) == nil
		return o, ok
	}
	words := strings.SplitN(strings.TrimRight(text, "\r\n"), " ", 3)
	if len(words) != 3 {
		return o, false
	}
	return obeyed{Method: words[0], Host: words[1], Path: words[2]}, true
}

// readings are all that a judge has of a request: what the head says, each with the
// methods for which the body asks.
func readings(h *reading.Request, body string) (out []obeyed, refused error) {
	others, err := h.Others()
	if err != nil {
		return nil, err
	}
	all := []reading.Request{*h}
	for i := range others {
		if others[i].BadTo != nil {
			return nil, others[i].BadTo
		}
		all = append(all, others[i].As(h))
	}
	var asked []string
	if form := h.Form(); form != nil {
		if err := form.Unreadable(); err != nil {
			return nil, err
		}
		found := func(method string) error { asked = append(asked, method); return nil }
		if _, err := form.Write([]byte(body), found); err != nil {
			return nil, err
		}
		if err := form.End(found); err != nil {
			return nil, err
		}
	}
	for _, r := range all {
		if r.BadPath != nil {
			return nil, r.BadPath // every rule about paths refuses it
		}
		for _, method := range append([]string{r.Method}, asked...) {
			out = append(out, obeyed{Method: strings.ToUpper(method), Path: r.Path.String(), Host: r.To.Host()})
		}
	}
	return out, nil
}

// plain takes away what is spelling alone: rules take a slash at the end for none, names
// have no upper case and may end in a dot, and a server may leave dot segments of a
// prefix and encoded slashes for its routes, which the reading has resolved.
func (o obeyed) plain() obeyed {
	o.Method = strings.ToUpper(o.Method)
	o.Host = strings.ToLower(strings.TrimSuffix(strings.Trim(o.Host, "[]"), "."))
	// The trials have one byte that is no UTF-8.
	o.Path = strings.ReplaceAll(strings.ToValidUTF8(o.Path, "%E9"), "\ufffd", "%E9")
	o.Path = strings.ReplaceAll(strings.ReplaceAll(o.Path, "%2F", "/"), "%2f", "/")
	if o.Path = "/" + strings.Trim(path.Clean("/"+o.Path), "/"); o.Path == "/*" {
		o.Path = "*"
	}
	return o
}

// unjudged is why what a server obeyed was in no reading; empty where it was.
func (o obeyed) unjudged(h *reading.Request, body string) string {
	if o.Tool != "" {
		c := h.Content()
		switch {
		case c.Odd != "", c.Coded, !c.Plain():
			return ""
		case h.Method != "POST":
			if others, err := h.Others(); err != nil || len(others) > 0 || h.Body {
				return "" // the route refuses it
			}
			return "a tool ran by " + h.Method
		case c.Type != "application/json" && c.Type != "":
			if is, _, _ := reading.JSON([]byte(body)); is {
				return "" // judged as a frame wherever it stands
			}
			return "a tool ran by a body of the type " + c.Type
		}
		return ""
	}
	list, err := readings(h, body)
	if err != nil {
		return ""
	}
	o = o.plain()
	for _, r := range list {
		if o == r.plain() {
			return ""
		}
	}
	return fmt.Sprintf("obeyed %+v, read as %+v", o, list)
}

// TestDifferential holds that what a real server takes a request for is among the
// readings that were judged, or that the gate refused it.
func TestDifferential(t *testing.T) {
	if os.Getenv("CLOISTER_DIFFERENTIAL") == "" {
		t.Fatal("CLOISTER_DIFFERENTIAL names no folder with the servers' modules: script/test differential")
	}
	var report strings.Builder
	for i := range peers {
		t.Run(peers[i].name, func(t *testing.T) { peers[i].try(t, &report) })
	}
	if out := os.Getenv("CLOISTER_DIFFERENTIAL_REPORT"); out != "" {
		if err := os.WriteFile(out, []byte(report.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}

func (p *peer) try(t *testing.T, report *strings.Builder) {
	addr, version := p.start(t)
	w := newWorld(t, map[string]string{"web.test": addr})
	v := allow()
	v.Inspect = true
	w.set("web.test", v)
	var reached, refused, silent, moved, wrong int
	for _, q := range trials(600) {
		answer, h := w.attempt(t, q)
		o, ok := parseObeyed(answer)
		switch {
		case h == nil:
			refused++
			continue
		case !ok:
			silent++ // the server refused it, or a HEAD has no body
			continue
		}
		if reached++; o.Method != q.method || o.Path != q.target || o.Host != "web.test" {
			moved++
		}
		if why := o.unjudged(h, q.body); why != "" {
			if wrong++; wrong <= 40 {
				t.Errorf("%q: %s", q.String(), why)
			}
		}
	}
	if reached < 50 && !p.tools || reached < 10 { // a tool runs for few of the trials
		t.Errorf("only %d requests were obeyed: the test proves nothing", reached)
	}
	fmt.Fprintf(report, "| %s | %s | %d | %d | %d | %d | %d | %d |\n", p.name, version,
		reached+refused+silent, refused, silent, reached, moved, wrong)
	t.Logf("%s (%s): %d refused by the gate, %d by the server, %d obeyed, %d of them as another request, %d unjudged",
		p.name, version, refused, silent, reached, moved, wrong)
}

// attempt sends a request through the gate. It gives the answer, and the request as
// it was judged: nil where it was refused before.
func (w *world) attempt(t *testing.T, q trial) (answer string, judged *reading.Request) {
	t.Helper()
	w.mu.Lock()
	w.queries = nil
	w.mu.Unlock()
	c := w.dial("web.test", 80)
	defer c.Close()
	write(t, c, q.String())
	text, err := io.ReadAll(bufio.NewReader(c))
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%q: %v", q.String(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, query := range w.queries {
		if query.Kind == verdict.Request {
			judged = query.HTTP
		}
	}
	return string(text), judged
}

// A printed is what a server prints, read while it runs.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}
