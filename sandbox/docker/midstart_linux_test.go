package docker_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// middle stands between a driver and the engine, and counts what is asked.
type middle struct {
	t      *testing.T
	behind *http.Client
	// failing is what happens to a question from the nth on: the engine hears it or
	// not, and the driver hears nothing of it, or that the connection is gone.
	nth        int
	heard, die bool

	under sync.WaitGroup // what the engine is just doing
	mu    sync.Mutex
	asked []string
	well  bool // it has recovered
}

func (m *middle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // who asked has gone
	}
	m.mu.Lock()
	if !m.well {
		m.asked = append(m.asked, r.Method+" "+r.URL.Path)
	}
	fails := !m.well && m.nth > 0 && len(m.asked) >= m.nth
	first := len(m.asked) == m.nth
	done := func() {}
	if !m.well {
		m.under.Add(1)
		done = m.under.Done
	}
	m.mu.Unlock()
	var resp *http.Response // none of what it does not hear
	if !fails || first && m.heard {
		resp, err = handOn(m.behind, r, body)
	}
	done()
	if err != nil {
		m.t.Error(err)
		return
	}
	if resp != nil {
		defer resp.Body.Close()
	}
	switch {
	case fails && m.die:
		panic(http.ErrAbortHandler)
	case fails:
		<-r.Context().Done()
	default:
		handBack(w, resp)
	}
}

func (m *middle) said() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// recovers returns when the engine has done what it had heard.
func (m *middle) recovers() {
	m.mu.Lock()
	m.well = true
	m.mu.Unlock()
	m.under.Wait()
}

// TestEngineFailsMidstart: an engine may hang or die at every question of a start
// and of its end, whether it has heard the question or not. Who started is told that it is
// the engine, at once or after its patience, and of what it made nothing is left
// when it is back.
func TestEngineFailsMidstart(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh")), ID: digest("4a1f")}
	if err := docker.New(o).Give(t.Context(), root, func(string) {}); err != nil {
		t.Fatal(err)
	}
	begin := func(t *testing.T, m *middle, patience time.Duration) (docker.Options, *docker.Driver) {
		t.Helper()
		m.t = t
		m.behind = engineClient(t)
		own := options(t)
		own.Socket = docker.Serve(t, m)
		return own, docker.Patience(own, patience)
	}
	whole := &middle{}
	own, d := begin(t, whole, 20*time.Second) // which a busy engine may need
	if out := sandboxtest.New(t, onImage{d, root}).Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) { s.ID = t.Name() + own.Dir }}, "sh", "-c", "exit 0"); out.Err != nil {
		t.Fatal(out.Err)
	}
	questions := whole.said()
	if len(questions) < 7 {
		t.Fatalf("a start asks %q", questions)
	}
	for n := range len(questions) {
		for _, how := range []struct{ heard, die bool }{{die: true}, {die: true, heard: true}, {}, {heard: true}} {
			t.Run(fmt.Sprintf("question %d heard %v dies %v", n+1, how.heard, how.die), func(t *testing.T) {
				t.Parallel()
				m := &middle{nth: n + 1, heard: how.heard, die: how.die}
				own, d := begin(t, m, 2*time.Second)
				out := sandboxtest.New(t, onImage{d, root}).Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) { s.ID = t.Name() + own.Dir }}, "sh", "-c", "exit 0")
				asked := m.said()
				m.recovers()
				if len(asked) < m.nth && out.Err == nil {
					return // whether the engine is asked to wait for a removal depends on its haste
				}
				if u, ok := errors.AsType[*sandbox.Unsupported](out.Err); !ok || u.Guarantee != "engine" || u.Fix == "" && u.Reason == "" {
					t.Errorf("after %q: %+v", asked, out)
				}
				if err := d.Leftovers(t.Context()); err != nil {
					t.Error(err)
				}
				for _, c := range containers(t, docker.Instance(d)) {
					t.Errorf("after %q: left %v (%v)", asked, c, out.Err)
					_ = docker.Remove(d, c.ID)
				}
				// What was not made, and could be until the engine is asked again much later.
				left, err := filepath.Glob(filepath.Join(own.Dir, "*", "*"))
				if err != nil {
					t.Error(err)
				}
				for _, file := range left {
					if name := filepath.Base(file); !strings.HasPrefix(name, "u") && name != "e" && name != "p" {
						t.Errorf("after %q: left %s", asked, file)
					}
					if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
						t.Error(err)
					}
				}
				if err := d.Leftovers(t.Context()); err != nil {
					t.Error(err)
				}
				if left, err := os.ReadDir(own.Dir); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
					t.Errorf("after %q: left %v, %v", asked, left, err)
				}
				t.Logf("%q: %v", asked, out.Err)
			})
		}
	}
}
