//go:build linux

package loadtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientWord makes the test binary the program inside a cloister: an order a
// line on its input, an answer a line on its output.
const clientWord = "client-inside"

type order struct {
	Do     string // get, ask, hold, held, resolve; for a time: load, names, exec, spin, frames; hoard
	URL    string
	Number int
	Every  time.Duration // between two gets
	Within time.Duration // for each
	Keep   bool          // one connection for all gets
	For    time.Duration // how long it lasts
	Wide   int           // how many do it side by side for that long
	H2     bool          // HTTP/2 on one connection, else 1.1 on one for each
	Size   int64         // of each answer, where it is looked at
	Up     int64         // of each body that goes up, as it is told
	Packed string        // the coding of such a body: it begins with what unpacks to much, and then stays away
	JSON   bool          // such a body is one frame of MCP
	Kind   string        // of hoard.Kinds
	bomb   []byte
}

type answer struct {
	Good, Bad int
	Slowest   time.Duration   // of the good and the bad
	Took      []time.Duration // of the good
	Lasted    time.Duration
	LastError string
}

func client() int {
	var held []net.Conn
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		var a answer
		switch o.Do {
		case "get":
			a = o.get()
		case "ask":
			a = o.ask()
		case "hold":
			held, a = o.hold()
		case "held":
			a = stillOpen(held)
		case "resolve":
			a = o.resolve()
		case "hoard":
			a = o.hoard()
		case "load", "names", "exec", "spin", "frames":
			a = o.lasting()
		}
		if err := out.Encode(a); err != nil {
			return 1
		}
	}
}

func (a *answer) add(took time.Duration, err error) {
	a.Slowest = max(a.Slowest, took)
	if err != nil {
		a.Bad++
		a.LastError = err.Error()
		return
	}
	a.Good++
	a.Took = append(a.Took, took)
}

func (o order) get() answer {
	var a answer
	c := &http.Client{Timeout: o.Within, Transport: &http.Transport{DisableKeepAlives: !o.Keep}}
	tick := time.NewTicker(max(o.Every, time.Microsecond))
	defer tick.Stop()
	for range o.Number {
		began := time.Now()
		steps, req, err := traced(o.URL)
		if err != nil {
			a.add(0, err)
			return a
		}
		resp, err := c.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		took := time.Since(began)
		if err != nil && took > long {
			err = fmt.Errorf("%w (%s)", err, steps.String())
		}
		a.add(took, err)
		<-tick.C
	}
	return a
}

// long is what a refusal does not take: where one does, it is told step by step.
const long = 500 * time.Millisecond

// traced is a request whose steps are noted, with when each came.
func traced(url string) (*steps, *http.Request, error) {
	s := &steps{began: time.Now(), base: inLine("self")}
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { s.note("asks for the name") },
		DNSDone:      func(i httptrace.DNSDoneInfo) { s.note("has %v, %v", i.Addrs, i.Err) },
		ConnectStart: func(_, at string) { s.note("connects to %s", at) },
		ConnectDone:  func(_, _ string, err error) { s.note("is connected: %v", err) },
		WroteRequest: func(i httptrace.WroteRequestInfo) { s.note("has asked: %v", i.Err) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	return s, req, err
}

type steps struct {
	began time.Time
	base  time.Duration
	mu    sync.Mutex
	text  strings.Builder
}

func (s *steps) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.text, "%v "+format+"; ", append([]any{time.Since(s.began).Round(time.Millisecond)}, args...)...)
}

// String is what was noted, and how long this process's threads waited for a processor
// meanwhile.
func (s *steps) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%sin line for a processor for %v meanwhile", s.text.String(), (inLine("self") - s.base).Round(time.Millisecond))
}

// inLine is how long the threads of a process could have run and did not.
func inLine(pid string) (sum time.Duration) {
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
	for _, name := range tasks {
		var ran, waited time.Duration
		text, _ := os.ReadFile(name)
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			sum += waited
		}
	}
	return sum
}

// ask gets each of many at the same time. %d in the URL is its number.
func (o order) ask() answer {
	var a answer
	var mu sync.Mutex
	var wait sync.WaitGroup
	for i := range o.Number {
		wait.Go(func() {
			one := order{URL: fmt.Sprintf(o.URL, i), Number: 1, Within: o.Within}.get()
			mu.Lock()
			defer mu.Unlock()
			a.Good, a.Bad, a.LastError = a.Good+one.Good, a.Bad+one.Bad, one.LastError
		})
	}
	wait.Wait()
	return a
}

// hold opens connections that begin a request and never end it.
func (o order) hold() ([]net.Conn, answer) {
	var a answer
	var mu sync.Mutex
	var held []net.Conn
	var wait sync.WaitGroup
	turn := make(chan struct{}, 32)
	for range o.Number {
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			began := time.Now()
			c, err := net.DialTimeout("tcp", o.URL, 10*time.Second)
			if err == nil {
				_, err = c.Write([]byte("GET / HTTP/1.1\r\nHo"))
			}
			mu.Lock()
			defer mu.Unlock()
			a.add(time.Since(began), err)
			if err == nil {
				held = append(held, c)
			}
		})
	}
	wait.Wait()
	return held, a
}

// stillOpen counts those that nobody has ended, as Good.
func stillOpen(held []net.Conn) answer {
	var a answer
	buf := make([]byte, 4096)
	for _, c := range held {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		err := error(nil)
		for err == nil {
			_, err = c.Read(buf)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
		a.add(0, err)
	}
	return a
}

func (o order) resolve() answer {
	var a answer
	for i := range o.Number {
		began := time.Now()
		_, err := net.LookupHost(fmt.Sprintf(o.URL, i))
		a.add(time.Since(began), err)
	}
	return a
}

// lasting does something side by side for a time. Of what knows no rest only the
// number is told.
func (o order) lasting() answer {
	var all answer
	var mu sync.Mutex
	var wait sync.WaitGroup
	if o.Packed != "" {
		o.bomb = packed(o.Packed)
	}
	began := time.Now()
	end := began.Add(o.For)
	shared := o.client()
	defer shared.CloseIdleConnections()
	for i := range max(1, o.Wide) {
		wait.Go(func() {
			var a answer
			c := shared
			if !o.H2 {
				c = o.client()
				defer c.CloseIdleConnections()
			}
			for n := 0; n == 0 || time.Now().Before(end); n++ {
				began := time.Now()
				err := o.once(c, i<<32+n)
				a.add(time.Since(began), err)
				if o.Every == 0 && o.Wide > 1 {
					a.Took = a.Took[:0]
					continue
				}
				time.Sleep(time.Until(began.Add(o.Every))) //nolint:forbidigo // the pace is the case
			}
			mu.Lock()
			defer mu.Unlock()
			all.Good, all.Bad, all.Took = all.Good+a.Good, all.Bad+a.Bad, append(all.Took, a.Took...)
			all.LastError = cmp.Or(a.LastError, all.LastError)
		})
	}
	wait.Wait()
	all.Lasted = time.Since(began)
	return all
}

func (o order) client() *http.Client {
	var spoken http.Protocols
	spoken.SetHTTP1(!o.H2)
	spoken.SetHTTP2(o.H2)
	by := func(*http.Request) (*url.URL, error) { return nil, nil }
	if at := os.Getenv(proxyKey); at != "" {
		by = func(*http.Request) (*url.URL, error) { return url.Parse(at) }
	}
	return &http.Client{Timeout: o.Within, Transport: &http.Transport{Proxy: by, DisableKeepAlives: !o.Keep, Protocols: &spoken}}
}

// once is the n-th time.
func (o order) once(c *http.Client, n int) error {
	switch o.Do {
	case "names":
		_, err := net.LookupHost(fmt.Sprintf(o.URL, n))
		return err
	case "exec":
		words := strings.Fields(o.URL)
		return exec.Command(words[0], words[1:]...).Run() //nolint:forbidigo // of the test
	case "spin":
		for range 1 << 20 {
			n = n*31 + 7
		}
		if n == 1 { // so that it is computed
			return io.EOF
		}
		return nil
	}
	if o.Do == "frames" {
		return o.frames()
	}
	resp, err := o.ask1(c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.Copy(io.Discard, resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return errors.New(resp.Status)
	case resp.ProtoMajor != 1 != o.H2:
		return errors.New("answered in " + resp.Proto)
	case o.Size > 0 && got != o.Size:
		return fmt.Errorf("%d bytes of %d", got, o.Size)
	}
	return nil
}

// inside is a client in a cloister.
type inside struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	err *bytes.Buffer // what cloister says
}

func (w *world) inside(flags ...string) *inside {
	w.t.Helper()
	path := filepath.Join(w.project, "client")
	if _, err := os.Stat(path); err != nil {
		self, err := os.Executable()
		if err != nil {
			w.t.Fatal(err)
		}
		text, err := os.ReadFile(self)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o755); err != nil { // it is executed
			w.t.Fatal(err)
		}
	}
	return w.started(w.command(append(append([]string{"run"}, flags...), "--", path, clientWord)...))
}

// outside is a client on the host.
func (w *world) outside(env ...string) *inside {
	w.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), "/proc/self/exe", clientWord)
	cmd.Env = append(os.Environ(), env...)
	return w.started(cmd)
}

func (w *world) started(cmd *exec.Cmd) *inside {
	w.t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	said := &bytes.Buffer{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	i := &inside{t: w.t, cmd: cmd, in: in, out: json.NewDecoder(out), err: said}
	w.t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return i
}

func (i *inside) tell(o order) {
	i.t.Helper()
	if o.Within == 0 {
		o.Within = 30 * time.Second
	}
	if err := json.NewEncoder(i.in).Encode(o); err != nil {
		i.t.Fatal(err)
	}
}

func (i *inside) hear() answer {
	i.t.Helper()
	var a answer
	if err := i.out.Decode(&a); err != nil {
		_ = i.cmd.Wait() // it ended: its output has
		i.t.Fatalf("%v: %s", err, i.err)
	}
	return a
}

func (i *inside) do(o order) answer {
	i.t.Helper()
	i.tell(o)
	return i.hear()
}
