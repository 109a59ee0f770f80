package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"cloister/egress"
	"cloister/egress/verdict"
)

func bounded(q egress.Quota) func(*egress.Config) {
	return func(c *egress.Config) { c.Quota = q }
}

// Each bound refuses what is one too many, in the program's protocol, with the
// words that would widen it, recorded.
func TestQuotaOfRequests(t *testing.T) {
	ca := newTestCA(t)
	addr := editServer(t, ca)
	for _, tc := range []struct {
		name  string
		quota egress.Quota
		body  string
		fine  int // requests before
		want  int
		hint  string
	}{
		{"rate", egress.Quota{RequestsPerMinute: 3}, "x", 3, 429, "requests_per_minute: 6"},
		{"body", egress.Quota{RequestBytes: 10}, strings.Repeat("x", 11), 0, 413, "max_request_bytes: 20"},
		{"host", egress.Quota{UploadHost: 25}, strings.Repeat("x", 10), 2, 413, "upload_limit: {host: 50}"},
		{"session", egress.Quota{UploadSession: 25}, strings.Repeat("x", 10), 2, 413, "upload_limit: {session: 50}"},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			for _, counted := range []bool{true, false} {
				t.Run(fmt.Sprint(tc.name, " ", proto, " ", counted), func(t *testing.T) {
					w := newInspectedBy(t, ca, addr, bounded(tc.quota))
					client := w.client()
					if proto == "HTTP/2.0" {
						client = w.client2()
					}
					for i := range tc.fine + 1 {
						body := io.Reader(strings.NewReader(tc.body))
						if !counted {
							body = io.MultiReader(body)
						}
						req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/", body)
						resp, err := client.Do(req)
						if err != nil {
							t.Fatal(err)
						}
						got, _ := io.ReadAll(resp.Body)
						resp.Body.Close()
						if i < tc.fine && resp.StatusCode != 200 {
							t.Fatalf("request %d: %d %s", i, resp.StatusCode, got)
						}
						if i == tc.fine && (resp.StatusCode != tc.want || !strings.Contains(string(got), tc.hint) || !strings.Contains(string(got), `"rule": "limit `)) {
							t.Fatalf("request %d: %d %s", i, resp.StatusCode, got)
						}
						if i == tc.fine && tc.want == 429 && resp.Header.Get("Retry-After") == "" {
							t.Error("no Retry-After")
						}
					}
					f := w.flow("a bound", func(f verdict.Flow) bool { return strings.HasPrefix(f.Rule, "limit ") })
					if f.Status != tc.want || len(f.Hints) == 0 {
						t.Errorf("%+v", f)
					}
					if u := w.engine.Usage(); u.Limited != 1 || u.Requests != int64(tc.fine+1) {
						t.Errorf("usage %+v", u)
					}
				})
			}
		}
	}
}

// A body that says how long it is gets the words for all of it, and none of it goes.
func TestQuotaOfLongBodies(t *testing.T) {
	ca := newTestCA(t)
	addr := editServer(t, ca)
	for hint, quota := range map[string]egress.Quota{
		"max_request_bytes: 160": {RequestBytes: 10}, "upload_limit: {host: 160}": {UploadHost: 10}, "upload_limit: {session: 160}": {UploadSession: 10},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			w := newInspectedBy(t, ca, addr, bounded(quota))
			client := w.client()
			if proto == "HTTP/2.0" {
				client = w.client2()
			}
			resp, err := client.Post("https://api.test/", "text/plain", strings.NewReader(strings.Repeat("x", 100)))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 413 || !strings.Contains(string(got), hint) || w.engine.Usage().Up != 0 {
				t.Errorf("%s: %d %s, %+v", proto, resp.StatusCode, got, w.engine.Usage())
			}
		}
	}
}

// A tunnel counts as one request, and its bytes count, spliced or not.
func TestQuotaOfTunnels(t *testing.T) {
	up := serve(t, echo)
	w := newWorld(t, map[string]string{"raw.test": up.addr}, bounded(egress.Quota{RequestsPerMinute: 3, UploadHost: 10 << 20}))
	c := w.dial("raw.test", 5555)
	write(t, c, "\x00\x01hello")
	if got := make([]byte, 7); func() error { _, err := io.ReadFull(c, got); return err }() != nil {
		t.Fatal("no echo")
	}
	sent := make(chan error, 1)
	go func() {
		chunk := make([]byte, 64<<10)
		for {
			if _, err := c.Write(chunk); err != nil {
				sent <- err
				return
			}
		}
	}()
	n, _ := io.Copy(io.Discard, c)
	if <-sent; n > 10<<20 {
		t.Errorf("%d bytes came back", n)
	}
	f := w.reason("bytes sent to this host")
	if f.Rule != "limit upload_limit.host" || len(f.Hints) == 0 {
		t.Errorf("%+v", f)
	}
	if u := w.engine.Usage(); u.Up > 10<<20 || u.Up < 1<<20 || u.Requests != 1 {
		t.Errorf("usage %+v", u)
	}
	w.engine.SetQuota(egress.Quota{RequestsPerMinute: 3})
	for range 2 {
		c := w.dial("raw.test", 5555)
		write(t, c, "\x00")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	c = w.dial("raw.test", 5555)
	write(t, c, "\x00")
	if got, _ := readAll(t, c); got != "" {
		t.Errorf("a fourth connection got %q", got)
	}
	w.reason("more than 3 requests in a minute")
}

// The frames of a WebSocket count too.
func TestQuotaOfFrames(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), webSocket(rightAccept)), bounded(egress.Quota{UploadHost: 1000}))
	c := w.open("http/1.1")
	write(t, c, webSocketRequest)
	r := bufio.NewReader(c)
	if head, err := readHead(r); err != nil || !strings.Contains(head, "101") {
		t.Fatal(head, err)
	}
	for range 20 {
		if _, err := io.WriteString(c, "\x82\xe4abcd"+strings.Repeat("x", 100)); err != nil {
			break
		}
	}
	_, _ = io.Copy(io.Discard, r)
	if f := w.reason("bytes sent to this host"); f.Rule != "limit upload_limit.host" {
		t.Errorf("%+v", f)
	}
}

// Names are bounded where they are asked, by DNS and by a proxy's client.
func TestQuotaOfNames(t *testing.T) {
	w := newWorld(t, nil, bounded(egress.Quota{NamesPerMinute: 10}))
	w.set("*", allow())
	refused := 0
	for i := range 30 {
		if _, err := w.resolver().LookupNetIP(t.Context(), "ip4", fmt.Sprintf("data%d.wide.test", i)); err != nil {
			refused++
		}
	}
	if refused != 20 {
		t.Errorf("%d of 30 were refused", refused)
	}
	c := w.connect("198.18.0.1:3128")
	write(t, c, "CONNECT data99.wide.test:443 HTTP/1.1\r\nHost: data99.wide.test:443\r\n\r\n")
	if got, _ := readAll(t, c); !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.Contains(got, "names_per_minute: 20") {
		t.Errorf("%q", got)
	}
	if f := w.reason("more new names below wide.test"); f.Rule != "limit rate_limit.names_per_minute" {
		t.Errorf("%+v", f)
	}
}
