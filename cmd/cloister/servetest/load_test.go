//go:build linux

package servetest

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestManyCalls has 200 sandboxes with ten commands each under way, and measures what one
// more command takes, beside docker exec where CLOISTER_DOCKER_PEER names a container that
// runs. It is made by a word, CLOISTER_LOAD=full: it takes minutes and gigabytes.
func TestManyCalls(t *testing.T) {
	if os.Getenv("CLOISTER_LOAD") != "full" {
		t.Skip("CLOISTER_LOAD=full")
	}
	const sandboxes, each, rounds = 200, 10, 500
	s := newServerOf(t, []string{"--ahead", "0", "--sandboxes", "200", "--streams", "4000", "--requests", "1000000"}, "acme")
	old := client
	client = &http.Client{Timeout: 10 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(func() { client = old })
	began := time.Now()
	all := make([]sandbox, sandboxes)
	for i := range all {
		all[i] = s.create("acme", `{"templateID":"base","timeout":3600}`)
	}
	t.Logf("%d sandboxes after %s", sandboxes, time.Since(began).Round(time.Second))
	s.measure("alone", all, rounds)

	ctx, stop := context.WithCancel(t.Context())
	var held sync.WaitGroup
	started := make(chan bool, sandboxes*each)
	for _, b := range all {
		for range each {
			held.Go(func() { b.hold(ctx, started) })
		}
	}
	for n := range cap(started) {
		select {
		case ok := <-started:
			if !ok {
				t.Fatal("a command that was to be under way did not start")
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("only %d commands are under way", n)
		}
	}
	t.Logf("%d commands under way after %s", cap(started), time.Since(began).Round(time.Second))
	s.measure("beside 2,000", all, rounds)
	if name := os.Getenv("CLOISTER_DOCKER_PEER"); name != "" {
		var took []time.Duration
		for range rounds / 5 {
			at := time.Now()
			if out, err := exec.CommandContext(t.Context(), "docker", "exec", name, "true").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			took = append(took, time.Since(at))
		}
		report(t, "docker exec", took)
	}
	stop()
	held.Wait()
	for _, b := range all {
		s.api("acme", "DELETE", "/sandboxes/"+b.id, "")
	}
}

// hold has a command under way until ctx ends, and sends whether it began.
func (b sandbox) hold(ctx context.Context, started chan<- bool) {
	text := `{"process":{"cmd":"/bin/sleep","args":["3600"]},"stdin":false}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.s.url+"/process.Process/Start", strings.NewReader(envelope([]byte(text))))
	if err != nil {
		started <- false
		return
	}
	for k, v := range b.header("application/connect+json") {
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		started <- false
		return
	}
	defer resp.Body.Close()
	head := make([]byte, 16)
	_, err = io.ReadFull(resp.Body, head)
	started <- err == nil && resp.StatusCode == http.StatusOK
	_, _ = io.Copy(io.Discard, resp.Body) // until ctx ends
}

// measure runs a command that does nothing, in one sandbox after the other.
func (s *server) measure(what string, all []sandbox, rounds int) {
	var took []time.Duration
	for i := range rounds {
		b := all[i%len(all)]
		at := time.Now()
		a := s.call("POST", "/process.Process/Start", b.header("application/connect+json"),
			envelope([]byte(`{"process":{"cmd":"/bin/true"},"stdin":false}`)))
		took = append(took, time.Since(at))
		if a.status != http.StatusOK || !strings.Contains(a.body, `"exitCode":0`) {
			s.t.Fatalf("%s: %d %q", what, a.status, a.body)
		}
	}
	report(s.t, what, took)
}

func report(t *testing.T, what string, took []time.Duration) {
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(100 * time.Microsecond)
	}
	t.Logf("%s: p50 %s, p99 %s, of %d", what, at(0.5), at(0.99), len(took))
}
