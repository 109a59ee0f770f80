package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCollector sends a session's record to OpenTelemetry's own collector, which script/telemetry
// builds, and draws the trace of what the collector wrote.
func TestCollector(t *testing.T) {
	program := os.Getenv("CLOISTER_COLLECTOR")
	if program == "" {
		t.Skip("script/test telemetry builds the collector, in two minutes")
	}
	dir := t.TempDir()
	build(t, dir, "cloister", "cloister-fleet")
	env, project := instance(t, dir)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))
	defer page.Close()
	config := fmt.Sprintf("version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  allow: [{domain: page.test}]\n"+
		"  hosts: {page.test: %q}\n", page.Listener.Addr())
	write(t, filepath.Join(dir, "config", "cloister", "config.yaml"), config)
	run := func(name string, words ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), filepath.Join(dir, name), words...)
		c.Env, c.Dir = env, project
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, words, err, errs.String())
		}
		return string(out)
	}
	defer func() { run("cloister", "guardian", "stop") }()
	run("cloister", "run", "--name", "traced", "--", "sh", "-c",
		"curl -sS 'http://page.test/hello?token=hunter2'; curl -sS http://other.test/ || true")

	at, written := collect(t, program, dir)
	answer := run("cloister-fleet", "telemetry", "--otlp", "http://"+at)
	if !strings.Contains(answer, " 0 refused by the collector, 0 requests made again") {
		t.Errorf("it answered %q", answer)
	}
	if again := run("cloister-fleet", "telemetry", "--otlp", "http://"+at); !strings.HasPrefix(again, "0 events sent") &&
		!strings.HasPrefix(again, "1 events sent") { // the guardian may have written one more
		t.Errorf("a second run answered %q", again)
	}
	tree := draw(t, written())
	for _, line := range []string{"session traced", "  exec sh", "    net.dns other.test"} {
		if !strings.Contains(tree, "\n"+line) {
			t.Errorf("the trace has no %q:\n%s", line, tree)
		}
	}
	if !strings.Contains(tree, "GET page.test") || strings.Contains(tree, "hunter2") {
		t.Errorf("the request:\n%s", tree)
	}
	if file := os.Getenv("CLOISTER_WRITE_TRACE"); file != "" {
		write(t, file, strings.TrimPrefix(tree, "\n"))
	}
}

// build builds programs of this repository.
func build(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		c := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(dir, name), "cloister/cmd/"+name)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
}

// instance is the environment of an instance of its own, and a project in it.
func instance(t *testing.T, dir string) (env []string, project string) {
	t.Helper()
	env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8"}
	for name, folder := range map[string]string{"CONFIG_HOME": "config", "STATE_HOME": "state", "DATA_HOME": "data", "RUNTIME_DIR": "run"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		env = append(env, "XDG_"+name+"="+filepath.Join(dir, folder))
	}
	project = filepath.Join(dir, "project")
	if err := os.MkdirAll(filepath.Join(project, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	return env, project
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// collect starts the collector. written ends it, and gives what it wrote.
func collect(t *testing.T, program, dir string) (at string, written func() []byte) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at = l.Addr().String()
	_ = l.Close()
	out := filepath.Join(dir, "collected.jsonl")
	write(t, filepath.Join(dir, "collector.yaml"), fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {file: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [file]}
    logs: {receivers: [otlp], exporters: [file]}
    metrics: {receivers: [otlp], exporters: [file]}
`, at, out))
	c := exec.CommandContext(t.Context(), program, "--config", "file:"+filepath.Join(dir, "collector.yaml"))
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ready, over := make(chan struct{}), make(chan error, 1)
	go func() {
		in := bufio.NewScanner(said)
		for in.Scan() {
			if strings.Contains(in.Text(), "Everything is ready") {
				close(ready)
			}
		}
		over <- c.Wait()
	}()
	select {
	case <-ready:
	case err := <-over:
		t.Fatalf("the collector ended: %v", err)
	case <-t.Context().Done():
		t.Fatal("the collector was not ready")
	}
	return at, func() []byte {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-over
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// wireSpan is a span as the collector writes it.
type wireSpan struct {
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string `json:"name"`
	Start        uint64 `json:"startTimeUnixNano,string"`
	End          uint64 `json:"endTimeUnixNano,string"`
	Attributes   []struct {
		Key   string `json:"key"`
		Value struct {
			Text string `json:"stringValue"`
		} `json:"value"`
	} `json:"attributes"`
}

func (s wireSpan) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.Text
		}
	}
	return ""
}

// draw draws the spans of all traces as trees, with when they began and how long they took.
func draw(t *testing.T, text []byte) string {
	t.Helper()
	var spans []wireSpan
	for line := range bytes.Lines(text) {
		var l struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []wireSpan `json:"spans"`
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		for _, r := range l.ResourceSpans {
			for _, s := range r.ScopeSpans {
				spans = append(spans, s.Spans...)
			}
		}
	}
	slices.SortStableFunc(spans, func(a, b wireSpan) int { return int(int64(a.Start) - int64(b.Start)) })
	var out strings.Builder
	var below func(parent string, depth int, from uint64)
	below = func(parent string, depth int, from uint64) {
		for _, s := range spans {
			if s.ParentSpanID != parent {
				continue
			}
			if depth == 0 {
				from = s.Start
			}
			ms := func(n uint64) string { return fmt.Sprintf("%7.1f ms", float64(time.Duration(n).Microseconds())/1000) }
			rule, _, _ := strings.Cut(s.attribute("cloister.rule"), " (")
			line := fmt.Sprintf("\n%-44s at %s, for %s  %s %s", strings.Repeat("  ", depth)+s.Name, ms(s.Start-from), ms(s.End-s.Start),
				s.attribute("cloister.verdict"), rule)
			out.WriteString(strings.TrimRight(line, " "))
			below(s.SpanID, depth+1, from)
		}
	}
	below("", 0, 0)
	out.WriteByte('\n')
	return out.String()
}
