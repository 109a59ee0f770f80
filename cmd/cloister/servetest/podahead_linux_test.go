package servetest

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPodAhead has pods that were made before their requests: each is one tenant's, is given to one request, and is told
// of it by what runs in it and by its connection, never by its description.
func TestPodAhead(t *testing.T) {
	c := newPodCluster(t, 0)
	s := newServerOf(t, []string{"--ahead", "2", "--sandboxes", "4"}, "acme", "other")
	s.onDouble(c)
	s.create("acme", `{"templateID":"base","timeout":120}`)
	spares := s.spares("acme", 2)
	s.until("each has a pod", func() bool { return len(c.hosts()) == 3 })

	// Another tenant's request has a pod of its own, and by no ID that of another.
	other := s.create("other", `{"templateID":"base","timeout":120}`)
	theirs := s.spares("other", 2)
	if slices.Contains(spares, other.id) || slices.ContainsFunc(theirs, func(id string) bool { return slices.Contains(spares, id) }) {
		t.Errorf("%s and %v were made for another tenant, of %v", other.id, theirs, spares)
	}
	never := s.api("other", "GET", "/sandboxes/i"+strings.Repeat("0", 19), "")
	for _, id := range spares {
		if a := s.api("other", "GET", "/sandboxes/"+id, ""); a.status != http.StatusNotFound || a.body != never.body {
			t.Errorf("another tenant looks at %s: %d %s", id, a.status, a.body)
		}
	}

	// A request makes one its own; the next one has another.
	b := s.warm("acme", `{"templateID":"base","timeout":120,"envVars":{"WORD":"telling-word"}}`, spares)
	if !slices.Contains(c.hosts(), b.id) {
		t.Errorf("%s has no pod of %v", b.id, c.hosts())
	}
	if got := b.output(`echo "$WORD"`); got != "telling-word\n" {
		t.Errorf("inside: %q", got)
	}
	if text := c.described(b.id); strings.Contains(text, "telling-word") || text == "" {
		t.Errorf("its description has what the request said:\n%s", text)
	}
	for _, verb := range c.verbs() {
		if !slices.Contains([]string{"create", "get", "delete", "exec", "auth"}, verb) {
			t.Errorf("kubectl %s: a pod is changed", verb)
		}
	}

	// With those that wait the tenant has never more pods than it may have sandboxes.
	next := s.warm("acme", `{"templateID":"base","timeout":120}`, slices.DeleteFunc(slices.Clone(spares), func(id string) bool { return id == b.id }))
	s.until("what waits has room", func() bool { return len(s.ids("acme")) == 4 })
	last := s.create("acme", `{"templateID":"base","timeout":120}`)
	if a := s.api("acme", "POST", "/v2/sandboxes", `{"templateID":"base"}`); a.status != http.StatusTooManyRequests {
		t.Errorf("a fifth: %d %s", a.status, a.body)
	}
	for _, one := range []sandbox{next, last} {
		s.api("acme", "DELETE", "/sandboxes/"+one.id, "")
	}

	// One whose pod is lost is given to no request.
	s.create("acme", `{"templateID":"base","timeout":120}`)
	waits := s.spares("acme", 1)
	s.until("its pod", func() bool { return slices.Contains(c.hosts(), waits[0]) })
	c.lose(waits[0])
	if e := s.create("acme", `{"templateID":"base","timeout":120}`); slices.Contains(waits, e.id) || e.output("echo here") != "here\n" {
		t.Errorf("%s was given, whose pod is lost", e.id)
	}
}

// TestPodAheadDrained: pods that wait end when what they were made of changes: the policy, the agent's image or the gate's;
// those that requests have stay. A server that is killed leaves none.
func TestPodAheadDrained(t *testing.T) {
	c := newPodCluster(t, 0)
	s := newServerOf(t, []string{"--ahead", "1"}, "acme")
	s.onDouble(c)
	mine := s.create("acme", `{"templateID":"base","timeout":120}`)
	t.Cleanup(func() {
		if t.Failed() {
			for _, file := range append(glob(t, s.dir+"/s/cloister/*/*.log"), glob(t, s.dir+"/s/cloister/*.log")...) {
				text, _ := os.ReadFile(file)
				t.Logf("%s: %s", file, text)
			}
			t.Logf("%v %v %s\n%s", c.hosts(), s.ids("acme"), s.record("acme"), s.log())
		}
	})
	ends := func(what string, change func()) {
		t.Helper()
		old := ""
		s.until("a pod that waits", func() bool { // one that was begun before the last change goes again
			old = s.spares("acme", 1)[0]
			return slices.Contains(c.hosts(), old) && len(c.hosts()) == 2
		})
		change()
		s.until(what+": the pod that waits ends", func() bool { return !slices.Contains(c.hosts(), old) })
		b := s.create("acme", `{"templateID":"base","timeout":120}`)
		if b.id == old {
			t.Errorf("%s: a pod of before was given", what)
		}
		if !slices.Contains(c.hosts(), mine.id) {
			t.Errorf("%s: the pod of a request is gone", what)
		}
		if want := c.image; !strings.Contains(c.described(b.id), want) {
			t.Errorf("%s: its pod is not of %s", what, want)
		}
		s.api("acme", "DELETE", "/sandboxes/"+b.id, "")
	}
	ends("another image", func() { c.image = "agent:2"; s.setUp(c) })
	ends("another gate", func() { c.gate = "gate@sha256:2"; s.setUp(c) })
	ends("another policy", func() {
		file := filepath.Join(s.dir, "d/cloister/serve/t/acme/config/cloister/config.yaml")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, append(text, "proxy: {allow: [{domain: allowed.example}]}\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	s.spares("acme", 1)
	s.kill()
	s.start()
	s.until("a killed server's pods that waited are gone", func() bool { return slices.Equal(c.hosts(), []string{mine.id}) })
}
