package docker_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// slowEngine stands before the engine. What it is asked to create for the agent it
// hands on only when it may, whether or not who asked still waits: as an engine
// does that unpacks an image or waits for its disk.
func slowEngine(t *testing.T, may <-chan struct{}) (socket string) {
	t.Helper()
	behind := engineClient(t)
	return docker.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // who asked has gone
		}
		late := createsAgent(r)
		if late {
			<-may
			// It had looked at what is to be mounted when it was asked.
			body = edited(t, body, func(_, host map[string]any) { delete(host, "Mounts") })
		}
		resp, err := handOn(behind, r, body)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if late && resp.StatusCode != http.StatusCreated {
			t.Errorf("%s: %s", r.URL, resp.Status)
		}
		handBack(w, resp)
	}))
}

// TestEngineSlow: a container that comes to be when nobody waits for it any more is
// removed, by a sweep and by the next start.
func TestEngineSlow(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh")), ID: digest("5105")}
	fast := docker.New(o)
	if err := fast.Give(t.Context(), root, func(string) {}); err != nil {
		t.Fatal(err)
	}
	folders := func() []string {
		entries, err := os.ReadDir(o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	ours := func() []container { return containers(t, docker.Instance(fast)) }
	t.Cleanup(func() {
		for _, c := range ours() {
			_ = docker.Remove(fast, c.ID) // a test that failed told of it
		}
	})
	for _, tt := range []struct {
		name  string
		sweep func() error
	}{
		{"a sweep", func() error { return fast.Leftovers(t.Context()) }},
		{"the next start", func() error {
			return sandboxtest.New(t, onImage{fast, root}).Run(t, sandboxtest.Options{}, "sh", "-c", "exit 0").Err
		}},
	} {
		may := make(chan struct{})
		slow := o
		slow.Socket = slowEngine(t, may)
		out := sandboxtest.New(t, onImage{docker.Patience(slow, 10*time.Second), root}).Run(t, sandboxtest.Options{}, "sh", "-c", "exit 0")
		if out.Err == nil || !strings.Contains(out.Err.Error(), "does not answer") || !strings.Contains(out.Err.Error(), "may still make") {
			t.Errorf("%s: %v", tt.name, out.Err)
		}
		if n := len(ours()); n != 0 {
			t.Errorf("%s: %d containers before the engine makes the late one", tt.name, n)
		}
		// Swept too early there is nothing to be found, and it is not forgotten.
		if err := fast.Leftovers(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(folders()); n != 1 {
			t.Errorf("%s: %d folders by which it would be found, want 1", tt.name, n)
		}
		close(may)
		for deadline := time.Now().Add(20 * time.Second); len(ours()) == 0; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // the engine tells nobody
			if time.Now().After(deadline) {
				t.Fatal("the engine made no container")
			}
		}
		// One that is listed may not be there to be removed yet.
		for deadline := time.Now().Add(20 * time.Second); len(ours())+len(folders()) > 0; {
			if time.Now().After(deadline) {
				t.Fatalf("%s: left %v, folders %v", tt.name, ours(), folders())
			}
			if err := tt.sweep(); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}

// TestEngineLeft: a start does not wait for what another session left with an engine
// that removes nothing.
func TestEngineLeft(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh")), ID: digest("1ef7")}
	d := docker.New(o)
	if err := d.Give(t.Context(), root, func(string) {}); err != nil {
		t.Fatal(err)
	}
	socket := docker.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
				t.Error("a start waited for it")
			}
		case r.URL.Path == "/_ping":
			w.Header().Set("Api-Version", "1.41")
			_, _ = io.WriteString(w, "OK") // who asked may have gone
		default:
			_ = json.NewEncoder(w).Encode([]container{{"c", map[string]string{"cloister.session": "dead", "cloister.role": "init"}}})
		}
	}))
	dead := filepath.Join(o.Dir, docker.Short("dead"))
	if err := errors.Join(os.MkdirAll(dead, 0o700), os.WriteFile(filepath.Join(dead, "e"), []byte(socket), 0o600), os.WriteFile(filepath.Join(dead, "uinit"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	out := sandboxtest.New(t, onImage{d, root}).Run(t, sandboxtest.Options{}, "sh", "-c", "exit 0")
	if _, err := os.Stat(dead); out.Err != nil || err != nil {
		t.Errorf("%v; what would be found again: %v", out.Err, err)
	}
}
