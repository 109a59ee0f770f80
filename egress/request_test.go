package egress_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/egress"
	"cloister/egress/verdict"
)

// Each step of a request's life is refused, fails or is abandoned, in HTTP/1 and in
// HTTP/2: the server sees nothing that was not allowed, no edit runs before the
// decision, and the record has one line: a denial of the Decider, or one of the Journal.
func TestEachRequestHasOneRecord(t *testing.T) {
	stop := &verdict.Refused{Verdict: verdict.Answer{Effect: "deny", Reason: "stopped by an edit"}}
	tests := map[string]struct {
		path, body, host string
		unsized          bool // the body does not say how long it is
		change           func(*verdict.Answer)
		edit             verdict.Edit
		meanwhile        string // what happens once the server has the request
		unseen           bool   // the server must not see it
		status           int
		reason           string // of the line in the record
	}{
		"whole":          {path: "/ok", status: 200},
		"with a body":    {path: "/ok", body: "x", status: 200},
		"edited":         {path: "/ok", edit: verdict.Edit{Request: func(*verdict.Message) error { return nil }}, status: 200},
		"another host":   {path: "/ok", host: "other.test", unseen: true, status: 421, reason: "not the name that was connected to"},
		"denied":         {path: "/ok", change: func(v *verdict.Answer) { v.Allow, v.Effect = false, "deny" }, unseen: true, status: 403},
		"logins alone":   {path: "/ok", change: func(v *verdict.Answer) { v.Protocol = "postgres" }, unseen: true, status: 403, reason: "this is HTTP"},
		"too long":       {path: "/ok", body: "0123456789", change: func(v *verdict.Answer) { v.MaxBytes = 5 }, unseen: true, status: 413, reason: "more than 5 bytes"},
		"too long, late": {path: "/ok", body: "0123456789", unsized: true, change: func(v *verdict.Answer) { v.MaxBytes = 5 }, status: 413, reason: "more than 5 bytes"},
		"edit up":        {path: "/ok", edit: verdict.Edit{Request: func(*verdict.Message) error { return stop }}, unseen: true, status: 403, reason: "stopped by an edit"},
		"edit down":      {path: "/ok", edit: verdict.Edit{Response: func(*verdict.Message) error { return stop }}, status: 403, reason: "stopped by an edit"},
		"no answer":      {path: "/none", body: "x", status: 502, reason: "the server's answer"},
		"half an answer": {path: "/half", reason: "the server's answer"},
		"abandoned":      {path: "/wait", meanwhile: "abandon"},
		"no longer":      {path: "/wait", meanwhile: "recheck", reason: "no longer allowed"},
	}
	for _, proto := range []string{"http/1.1", "h2"} {
		for name, tc := range tests {
			t.Run(proto+" "+name, func(t *testing.T) {
				var decided, early, seen atomic.Int64
				arrived := make(chan struct{}, 1)
				ca := newTestCA(t)
				addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen.Add(1)
					if decided.Load() == 0 {
						early.Add(1)
					}
					_, _ = io.Copy(io.Discard, r.Body)
					switch r.URL.Path {
					case "/none":
						panic(http.ErrAbortHandler)
					case "/half":
						_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
						_ = http.NewResponseController(w).Flush()
						panic(http.ErrAbortHandler)
					case "/wait":
						arrived <- struct{}{}
						<-r.Context().Done()
					}
				}), proto)
				var w *inspected
				t.Cleanup(func() { // once the engine has ended
					var lines []verdict.Flow
					for _, f := range w.flows {
						if f.Kind == verdict.Request {
							lines = append(lines, f)
						}
					}
					want := 1
					if name == "denied" {
						want = 0 // the Decider has recorded it
					}
					if len(lines) != want {
						t.Fatalf("%d lines in the record: %+v", len(lines), lines)
					}
					if want == 1 && (!strings.Contains(lines[0].Reason, tc.reason) || tc.status == 200 && lines[0].Reason != "") {
						t.Errorf("the record says %q", lines[0].Reason)
					}
					if early.Load() > 0 {
						t.Error("something was done before the decision")
					}
					if tc.unseen && seen.Load() > 0 {
						t.Error("the server has seen it")
					}
				})
				w = newInspectedBy(t, ca, addr, func(c *egress.Config) {
					if tc.meanwhile == "abandon" { // a program that ended its sending may still read
						c.Limits.HalfClosed = time.Millisecond
					}
				})
				judge := func(q verdict.Query) (verdict.Answer, bool) {
					if q.Kind != verdict.Request {
						return verdict.Answer{}, false
					}
					decided.Add(1)
					v := read()
					edit := tc.edit
					if inner := edit.Request; inner != nil {
						edit.Request = func(m *verdict.Message) error {
							if decided.Load() == 0 || seen.Load() > 0 {
								early.Add(1)
							}
							return inner(m)
						}
					}
					if edit.Request != nil || edit.Response != nil {
						v.Edits = []verdict.Edit{edit}
					}
					if tc.change != nil {
						tc.change(&v)
					}
					return v, true
				}
				w.mu.Lock()
				w.judged = judge
				w.mu.Unlock()
				client := w.client()
				if proto == "h2" {
					client = w.client2()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var body io.Reader
				method := http.MethodGet
				if tc.body != "" {
					method, body = http.MethodPost, strings.NewReader(tc.body)
					if tc.unsized {
						body = io.MultiReader(body) // of a type whose length net/http does not know
					}
				}
				r, err := http.NewRequestWithContext(ctx, method, "https://"+readHost+tc.path, body)
				if err != nil {
					t.Fatal(err)
				}
				if tc.host != "" {
					r.Host = tc.host
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if tc.meanwhile == "" {
						return
					}
					<-arrived
					if tc.meanwhile == "abandon" {
						cancel()
						return
					}
					w.mu.Lock()
					w.judged = func(verdict.Query) (verdict.Answer, bool) { return verdict.Answer{Reason: "no more"}, true }
					w.mu.Unlock()
					w.engine.Recheck(t.Context())
				}()
				resp, err := client.Do(r)
				<-ended
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if tc.status != 0 && resp.StatusCode != tc.status {
						t.Errorf("status %d, not %d", resp.StatusCode, tc.status)
					}
				}
				if name != "denied" {
					w.flow("the request's", func(f verdict.Flow) bool { return f.Kind == verdict.Request })
				}
				if (err == nil) != (tc.status != 0) {
					t.Errorf("the program has %v", err)
				}
			})
		}
	}
}
