package servetest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPodPause: a pod cannot be held still, which is said by name; its files outlive it, also where its time is over and it
// was to be paused. Nothing of what ran goes on.
func TestPodPause(t *testing.T) {
	c := newPodCluster(t, 0)
	if err := os.Mkdir(filepath.Join(c.dir, "homes"), 0o777); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, "acme")
	s.onDouble(c)
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	b.write("dir/file", "content")
	if got := b.output("cat /home/user/dir/file"); got != "content" {
		t.Fatalf("inside: %q", got)
	}
	pause := "/sandboxes/" + b.id + "/pause"
	if a := s.api("acme", "POST", pause, ""); a.status != http.StatusBadRequest ||
		!strings.Contains(a.body, "pause: --isolation kubernetes cannot keep the memory: a pause with memory false keeps the files") {
		t.Errorf("a pause with the memory: %d %s", a.status, a.body)
	}
	if got := b.output("echo here"); got != "here\n" {
		t.Errorf("after the refusal: %q", got)
	}
	resumed := func() {
		t.Helper()
		s.until("the pod of what is paused is gone", func() bool { return len(c.hosts()) == 0 })
		if a := s.api("acme", "POST", "/v2/sandboxes/"+b.id+"/connect", `{"timeout":120}`); a.status != http.StatusCreated {
			t.Fatalf("resume: %d %s", a.status, a.body)
		}
		if got := b.output("cat /home/user/dir/file; ls -a /home/user"); got != "content.\n..\ndir\n" {
			t.Errorf("afterwards: %q", got)
		}
	}
	if a := s.api("acme", "POST", pause, `{"memory":false}`); a.status != http.StatusNoContent {
		t.Fatalf("a pause that keeps the files: %d %s", a.status, a.body)
	}
	resumed()

	// A server that is killed leaves the files of what is paused to the next one.
	if a := s.api("acme", "POST", pause, `{"memory":false}`); a.status != http.StatusNoContent {
		t.Fatalf("again: %d %s", a.status, a.body)
	}
	s.kill()
	s.start()
	resumed()

	// So does one that is killed in the midst of a resume: a session runs, and what is written down is that it is paused.
	if a := s.api("acme", "POST", pause, `{"memory":false}`); a.status != http.StatusNoContent {
		t.Fatalf("once more: %d %s", a.status, a.body)
	}
	at := filepath.Join(s.dir, "d/cloister/serve/t/acme/sandboxes", b.id)
	was := map[string][]byte{"record.json": nil, "files.tar": nil}
	for name := range was {
		text, err := os.ReadFile(filepath.Join(at, name))
		if err != nil {
			t.Fatal(err)
		}
		was[name] = text
	}
	resumed()
	s.kill()
	for name, text := range was {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	if a := s.api("acme", "POST", "/v2/sandboxes/"+b.id+"/connect", `{"timeout":120}`); a.status != http.StatusCreated {
		t.Errorf("a resume after a half one: %d %s", a.status, a.body)
	} else if got := b.output("cat /home/user/dir/file"); got != "content" {
		t.Errorf("after a half resume: %q", got)
	}
	s.api("acme", "DELETE", "/sandboxes/"+b.id, "")

	b = s.create("acme", `{"templateID":"base","timeout":120,"autoPause":true}`)
	b.write("dir/file", "content")
	s.api("acme", "POST", "/sandboxes/"+b.id+"/timeout", `{"timeout":0}`)
	s.until("it is paused at its end", func() bool { return strings.Contains(s.api("acme", "GET", "/sandboxes/"+b.id, "").body, `"paused"`) })
	resumed()
	s.api("acme", "DELETE", "/sandboxes/"+b.id, "")
	s.until("its files are gone", func() bool { return len(glob(t, filepath.Join(s.dir, "d/cloister/serve/t/acme/sandboxes/*"))) == 0 })
}
