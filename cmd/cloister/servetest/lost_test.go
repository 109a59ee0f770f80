//go:build linux

package servetest

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"cloister/internal/needs"
)

// losses are how often a tenant's record on a server's host has a sandbox as lost.
func (s *server) losses(tenant, id string) (n int) {
	s.t.Helper()
	for line := range strings.Lines(s.of(tenant, "audit", "export")) {
		var e struct{ Kind, Session, Action string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Kind == "tenant.sandbox" && e.Session == id && e.Action == "lost" {
			n++
		}
	}
	return n
}

// TestLostServer has a server killed, and the one that takes over killed between the record of the loss and its strike,
// which the database refuses, and its tenant's guardian ended: there is one record of the loss.
func TestLostServer(t *testing.T) {
	p := needs.NewPostgres(t)
	fleet(t)
	t.Setenv("CLOISTER_DATABASE", p.Database("lost"))
	words := []string{"--domain", "sandboxes.example", "--lease", "10m"}
	a := newServerAt(t, "", []string{"--ahead", "0"}, words, "acme")
	b := newServerAt(t, "", nil, words)
	b.keys = a.keys
	eventually(t, "the other server does not learn of the keys", func() bool { return b.api("acme", "GET", "/sandboxes", "").status == http.StatusOK })
	one := a.create("acme", `{"templateID":"base"}`)
	p.Do("lost", `create function refuse() returns trigger language plpgsql as
		$$ begin if old.lost then raise exception 'it takes no strikes'; end if; return old; end $$;
		create trigger refuse before delete on cloister_sandboxes for each row execute function refuse()`)
	a.kill()
	p.Do("lost", "update cloister_servers set in_touch_since = now() - interval '1 hour'; update cloister_servers set "+
		"lease_until = now() - interval '1 hour' where address = '"+a.url+"'")
	recorded := func() bool {
		_, err := os.Stat(b.dir + "/d/cloister/serve/t/acme/state/cloister/audit") // its guardian is started by the record
		return err == nil && b.losses("acme", one.id) > 0
	}
	eventually(t, "the loss is not recorded", recorded)
	b.kill()
	if err := b.tenant("acme", "guardian", "stop").Run(); err != nil {
		t.Fatal(err)
	}
	b.start()
	p.Do("lost", "drop trigger refuse on cloister_sandboxes")
	eventually(t, "what was lost is listed", func() bool {
		list := b.api("acme", "GET", "/v2/sandboxes", "")
		return list.status == http.StatusOK && !strings.Contains(list.body, one.id)
	})
	if n := b.losses("acme", one.id); n != 1 {
		t.Errorf("the loss was recorded %d times", n)
	}
	a.start() // ends what it had
	a.until("the processes of what was lost go on", func() bool { return len(a.ids("acme")) == 0 })
}
