//go:build linux

package servetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/internal/needs"
)

var binary string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == kubectlName {
		syscall.Exit(beKubectl()) // os.Exit has the race detector wait a second
	}
	os.Exit(needs.Cloister(m, &binary))
}

// A server is cloister serve in an instance of its own, with two tenants.
type server struct {
	t   *testing.T
	dir string
	env []string
	url string
	// address is where it listens, empty for a free port, and words are further ones.
	address string
	words   []string
	keys    map[string]string // by tenant
	stop    func()
	kill    func()
	log     func() string // what it wrote; to be asked for when it is idle
}

// newServer starts a server with tenants that have no sandboxes started ahead: what a test
// finds is of its own requests.
func newServer(t *testing.T, names ...string) *server {
	t.Helper()
	return newServerOf(t, []string{"--ahead", "0"}, names...)
}

// newServerOf starts a server with tenants that were added with flags.
func newServerOf(t *testing.T, flags []string, names ...string) *server {
	t.Helper()
	return newServerAt(t, "", flags, []string{"--domain", "sandboxes.example"}, names...)
}

// newServerAt starts a server at an address, or at a free one, with words of its own.
func newServerAt(t *testing.T, address string, flags, words []string, names ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "sv")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"home", "run", "c", "s", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := &server{t: t, dir: dir, address: address, words: words, keys: map[string]string{}}
	s.env = []string{
		"HOME=" + dir + "/home", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "XDG_CONFIG_HOME=" + dir + "/c",
		"XDG_STATE_HOME=" + dir + "/s", "XDG_DATA_HOME=" + dir + "/d", "XDG_RUNTIME_DIR=" + dir + "/run",
		"CLOISTER_DATABASE=" + os.Getenv("CLOISTER_DATABASE"), "AWS_ACCESS_KEY_ID=" + os.Getenv("AWS_ACCESS_KEY_ID"),
		"AWS_SECRET_ACCESS_KEY=" + os.Getenv("AWS_SECRET_ACCESS_KEY"), "AWS_CA_BUNDLE=" + os.Getenv("AWS_CA_BUNDLE"),
	}
	for _, name := range names {
		s.do(append([]string{"serve", "tenant", "add", name}, flags...)...)
		s.keys[name] = strings.TrimSpace(s.do("serve", "key", "add", name))
	}
	s.start()
	t.Cleanup(func() {
		s.stop()
		for name := range s.keys {
			if !slices.Contains(names, name) { // of another server, which removes it
				_ = s.tenant(name, "guardian", "stop").Run() // none may have been needed here
			}
		}
		for _, name := range names {
			s.do("serve", "tenant", "remove", name)
		}
		_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				_ = os.Chmod(name, 0o700) // a sandbox may have closed it
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *server) command(words ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), binary, words...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// do runs cloister, which must succeed, and gives what it printed.
func (s *server) do(words ...string) string {
	s.t.Helper()
	cmd := s.command(words...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("cloister %s: %v: %s", strings.Join(words, " "), err, errs.Bytes())
	}
	return string(out)
}

// start starts the server on a free port of the loopback.
func (s *server) start() {
	s.t.Helper()
	address := s.address
	if address == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		address = l.Addr().String()
		l.Close()
	}
	cmd := s.command(append([]string{"serve", "--e2b", address, "--drain", "2s"}, s.words...)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.url = "http://" + address
	s.log = log.String
	s.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("serve: %v: %s", err, log.Bytes())
		}
		s.stop = func() {}
	}
	s.kill = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}
	for began := time.Now(); ; {
		resp, err := client.Get(s.url + "/health") // one of TLS answers 400
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("serve does not answer: %v: %s", err, log.Bytes())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// An answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) field(t *testing.T, name string) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	text, _ := v[name].(string)
	return text
}

// client goes to the server and nowhere else.
var client = &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{}}

// call makes one request.
func (s *server) call(method, path string, header map[string]string, body string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range header {
		if req.Header.Set(k, v); k == "Host" {
			req.Host = v
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{status: -1, body: err.Error()}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		text = append(text, fmt.Sprintf(" (%v)", err)...)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// api calls the control API with a tenant's key.
func (s *server) api(tenant, method, path, body string) answer {
	s.t.Helper()
	return s.call(method, path, map[string]string{"X-API-KEY": s.keys[tenant], "Content-Type": "application/json"}, body)
}

// A sandbox is one of a tenant's.
type sandbox struct {
	s         *server
	id, token string
}

func (s *server) create(tenant, body string) sandbox {
	s.t.Helper()
	a := s.api(tenant, "POST", "/v2/sandboxes", body)
	if a.status != http.StatusCreated {
		s.t.Fatalf("create: %d %s", a.status, a.body)
	}
	return sandbox{s, a.field(s.t, "sandboxID"), a.field(s.t, "envdAccessToken")}
}

func (b sandbox) header(kind string) map[string]string {
	return map[string]string{"E2b-Sandbox-Id": b.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": b.token, "Content-Type": kind}
}

// unary makes one unary call.
func (b sandbox) unary(method, body string) answer {
	b.s.t.Helper()
	return b.s.call("POST", "/"+method, b.header("application/json"), body)
}

// run runs a shell command and gives the stream as it came.
func (b sandbox) run(script string) answer {
	b.s.t.Helper()
	text, err := json.Marshal(map[string]any{"process": map[string]any{"cmd": "/bin/bash", "args": []string{"-l", "-c", script}}, "stdin": false})
	if err != nil {
		b.s.t.Fatal(err)
	}
	return b.s.call("POST", "/process.Process/Start", b.header("application/connect+json"), envelope(text))
}

func envelope(text []byte) string {
	n := len(text)
	return string([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + string(text)
}

// output runs a shell command, which must succeed, and gives what it wrote.
func (b sandbox) output(script string) string {
	b.s.t.Helper()
	a := b.run(script)
	var out []byte
	ended := false
	for text := []byte(a.body); len(text) >= 5; {
		n := int(text[1])<<24 | int(text[2])<<16 | int(text[3])<<8 | int(text[4])
		var m struct {
			Event struct {
				Data struct{ Stdout []byte }
				End  *struct{ ExitCode int }
			}
		}
		if err := json.Unmarshal(text[5:5+n], &m); err != nil {
			b.s.t.Fatalf("%q: %v", text[5:5+n], err)
		}
		out = append(out, m.Event.Data.Stdout...)
		if e := m.Event.End; e != nil {
			if ended = true; e.ExitCode != 0 {
				b.s.t.Errorf("%s: exit status %d: %q", script, e.ExitCode, a.body)
			}
		}
		text = text[5+n:]
	}
	if !ended {
		b.s.t.Errorf("%s: it did not end: %d %q", script, a.status, a.body)
	}
	return string(out)
}

func (b sandbox) write(path, text string) answer {
	b.s.t.Helper()
	return b.s.call("POST", "/files?path="+path, b.header("application/octet-stream"), text)
}

func (b sandbox) read(path string) answer {
	b.s.t.Helper()
	return b.s.call("GET", "/files?path="+path, b.header(""), "")
}
