package servetest

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/serve/servertest/clients"
)

// TestPodStorm has clients make and end sandboxes that are pods of a double, through a server that is killed at random
// moments, and an API server that is busy at times. Afterwards each sandbox that a client was given and nobody ended has
// its pod, there is no other pod, and every session's start and end are on the tenant's record. CLOISTER_KILLS is how
// many kills; of sandboxes there are ten times as many.
func TestPodStorm(t *testing.T) {
	kills, sandboxes := 2, 8
	if text := os.Getenv("CLOISTER_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		sandboxes = 10 * kills
	}
	address := ownAddress(t)
	c := newPodCluster(t, 3)
	s := newServerAt(t, address, []string{"--ahead", "0", "--sandboxes", "1000"}, []string{"--domain", "sandboxes.example"}, "acme")
	s.onDouble(c)
	began, before := time.Now(), processorTime(t)
	b := clients.New(s.keys["acme"], 3, 20)
	list := func() []string {
		t.Helper()
		list, err := clients.List(context.WithoutCancel(t.Context()), s.url, s.keys["acme"])
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	var over atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !over.Load() {
				b.Act(t.Context(), s.url)
			}
		})
	}
	killed := 0
	for killed < kills || b.Count() < sandboxes {
		<-time.After(time.Duration(rand.IntN(400)) * time.Millisecond)
		if killed < kills && b.Count()*kills >= killed*sandboxes { // spread over all of them
			s.kill()
			free(address)
			s.start()
			killed++
		}
	}
	over.Store(true)
	all.Wait()
	s.kill() // what was half made by the last requests is ended by the next server
	free(address)
	s.start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("listed %v\npods of %v\nthe last server: %s\nthe record:\n%s", list(), c.hosts(), s.log(), s.record("acme"))
		}
	})
	var listed []string
	s.until("pods and sandboxes are the same", func() bool {
		listed = list()
		return slices.Equal(listed, c.hosts())
	})
	for _, what := range b.Wrong(listed) {
		t.Error(what)
	}
	for _, id := range listed {
		if status, answer := clients.Call(t.Context(), s.url, s.keys["acme"], "DELETE", "/sandboxes/"+id, ""); status != http.StatusNoContent {
			t.Errorf("end %s: %d %s", id, status, answer)
		}
	}
	s.until("all pods are gone", func() bool { return len(c.hosts()) == 0 })
	onRecord(t, s, b)
	for _, note := range glob(t, filepath.Join(s.dir, "d/cloister/serve/t/acme/data/cloister/homes/*.project")) {
		text, err := os.ReadFile(note)
		if err != nil {
			t.Error(err)
		}
		// One that no client was given, and whose session came while a server was away, goes two minutes later.
		if id := filepath.Base(filepath.Dir(strings.TrimSpace(string(text)))); b.Alive[id] || b.Dead[id] {
			t.Errorf("the home of %s is left", id)
		}
	}
	if left := glob(t, filepath.Join(s.dir, "run/cloister/s/acme/cloister/k/*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	t.Logf("%d kills, %d sandboxes made, %d pods, %d at once, %d requests without a good answer, %d alive before the end; %v, of processors %v",
		killed, b.Made, c.made, c.most, b.Uncertain, len(listed), time.Since(began).Round(time.Second/10), processorTime(t)-before)
}

// TestPodLost: a pod whose gate ends, as with its node, is a session that is lost, which the tenant's record has with the
// reason; the sandbox is gone, and no other takes its place.
func TestPodLost(t *testing.T) {
	c := newPodCluster(t, 0)
	s := newServer(t, "acme")
	s.onDouble(c)
	b, other := s.create("acme", `{"templateID":"base","timeout":120}`), s.create("acme", `{"templateID":"base","timeout":120}`)
	c.lose(b.id)
	s.until("the lost pod is gone", func() bool { return slices.Equal(c.hosts(), []string{other.id}) })
	s.until("the sandbox is gone", func() bool { return s.api("acme", "GET", "/sandboxes/"+b.id, "").status == http.StatusNotFound })
	var reasons []string
	for line := range strings.Lines(s.of("acme", "audit", "export")) {
		var e struct{ Kind, Session, Reason string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == "session.stop" {
			reasons = append(reasons, e.Session+" "+e.Reason)
		}
	}
	if len(reasons) != 1 || !strings.HasPrefix(reasons[0], b.id+" ") || !strings.Contains(reasons[0], "the pod is lost: its gate is gone") {
		t.Errorf("the ends on record: %q", reasons)
	}
	if a := s.api("acme", "DELETE", "/sandboxes/"+other.id, ""); a.status != http.StatusNoContent {
		t.Errorf("the other one: %d %s", a.status, a.body)
	}
}

// onRecord holds the tenant's record to what clients know: what was started has ended, and nothing that they know is
// missing.
func onRecord(t *testing.T, s *server, b *clients.Book) {
	t.Helper()
	s.of("acme", "audit", "verify")
	var started, ended map[string]int
	read := func() bool {
		started, ended = map[string]int{}, map[string]int{}
		for line := range strings.Lines(s.record("acme")) {
			kind, rest, _ := strings.Cut(line, " ")
			_, of, _ := strings.Cut(strings.TrimSpace(rest), "in ")
			switch kind {
			case "session.start":
				started[of]++
			case "session.stop":
				ended[of]++
			}
		}
		return len(started) == len(ended)
	}
	s.until("each session that was started has ended", read)
	for _, of := range []map[string]bool{b.Alive, b.Dead} {
		for id := range of {
			if started[id] != 1 || ended[id] != 1 {
				t.Errorf("%s: %d starts and %d ends are on record", id, started[id], ended[id])
			}
		}
	}
}

// processorTime is that of all processes that this one waited for, and its own.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// ownAddress is one that no connection of this machine's is given as its own while no server listens there.
func ownAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// free waits for an address that a process may have which a killed server was just starting.
func free(address string) {
	for {
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return
		}
		<-time.After(time.Millisecond)
	}
}
