//go:build linux

package servetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// strangersRoutes are the routes that have an ID in them, SANDBOX or TEMPLATE.
var strangersRoutes = []string{
	"GET /sandboxes/SANDBOX", "DELETE /sandboxes/SANDBOX", "POST /sandboxes/SANDBOX/timeout", "POST /sandboxes/SANDBOX/refreshes",
	"POST /sandboxes/SANDBOX/pause", "POST /sandboxes/SANDBOX/resume", "POST /sandboxes/SANDBOX/connect", "POST /v2/sandboxes/SANDBOX/connect",
	"POST /sandboxes/SANDBOX/fork", "POST /sandboxes/SANDBOX/snapshots", "GET /sandboxes/SANDBOX/metrics", "PUT /sandboxes/SANDBOX/network",
	"GET /snapshots?sandboxID=SANDBOX", "GET /templates/TEMPLATE", "DELETE /templates/TEMPLATE", "GET /templates/aliases/TEMPLATE",
	"POST /v2/templates/TEMPLATE/builds/TEMPLATE", "GET /templates/TEMPLATE/builds/TEMPLATE/status",
	"POST /process.Process/List", "POST /process.Process/Start", "POST /filesystem.Filesystem/ListDir", "GET /files?path=x", "POST /files?path=x",
	"GET /health", "GET /",
}

// strangersBodies are bodies of those requests, good and bad ones.
var strangersBodies = []string{
	"", "{}", `{"timeout":5}`, `{"timeout":-1}`, `{"denyOut":["*"]}`, `{"denyOut":["a b"]}`, `{"fromImage":"sha256:ab"}`, `{"path":"/"}`, "[]", "{",
	`{"name":"a b"}`, `{"count":0}`, `{"duration":5,"memory":false}`,
}

// twist writes an ID another way, or something around it.
func twist(t *rapid.T, id string) string {
	switch rapid.IntRange(0, 9).Draw(t, "twist") {
	case 0:
		return strings.ToUpper(id)
	case 1:
		i := rapid.IntRange(0, len(id)-1).Draw(t, "at")
		return id[:i] + fmt.Sprintf("%%%02x", id[i]) + id[i+1:]
	case 2:
		return "x/../" + id
	case 3:
		return url.PathEscape("../" + id)
	case 4:
		return id + rapid.SampledFrom([]string{"/", "%00", "%20", ".", "%2f", "?", "%0a", "a"}).Draw(t, "after")
	case 5:
		return "/" + id
	}
	return id
}

// TestStrangersAnyhow: whatever a tenant's key and token are used for, an ID of
// another tenant's is answered as one of the same form that never was.
func TestStrangersAnyhow(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme", "other")
	b := s.create("acme", `{"templateID":"base","timeout":600}`)
	b.write("kept", "as it was")
	mine := s.create("other", `{"templateID":"base","timeout":600}`)
	made := s.api("acme", "POST", "/v3/templates", `{"name":"mine"}`)
	real := map[string]string{"SANDBOX": b.id, "TEMPLATE": made.field(t, "templateID")}
	never := map[string]string{"SANDBOX": "i" + strings.Repeat("0", 19), "TEMPLATE": "t" + strings.Repeat("0", 19)}
	through := &http.Client{
		Timeout: 60 * time.Second, Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(through.CloseIdleConnections)
	rapid.Check(t, func(t *rapid.T) {
		method, path, _ := strings.Cut(rapid.SampledFrom(strangersRoutes).Draw(t, "route"), " ")
		body := rapid.SampledFrom(strangersBodies).Draw(t, "body")
		key := rapid.SampledFrom([]string{s.keys["other"], "", "e2b_" + strings.Repeat("1", 40)}).Draw(t, "key")
		token := rapid.SampledFrom([]string{mine.token, "", strings.Repeat("0", 64)}).Draw(t, "token")
		by := rapid.SampledFrom([]string{"path", "headers", "host", "host with a port", "HOST"}).Draw(t, "by")
		kind := rapid.SampledFrom([]string{"application/json", "application/connect+json", "application/octet-stream", ""}).Draw(t, "kind")
		port := rapid.SampledFrom([]string{"49983", "8080", "0", "x"}).Draw(t, "port")
		forms := map[string]string{}
		for name, id := range real { // the same way for both
			forms[name] = twist(t, id)
		}
		say := func(of map[string]string) string {
			at := path
			for name, id := range of {
				form := forms[name]
				for _, spelled := range []string{real[name], strings.ToUpper(real[name])} {
					if strings.Contains(form, spelled) {
						form = strings.ReplaceAll(form, spelled, map[bool]string{true: id, false: strings.ToUpper(id)}[spelled == real[name]])
					}
				}
				if i := strings.Index(form, "%"); !strings.Contains(form, id) && !strings.Contains(form, strings.ToUpper(id)) && i >= 0 {
					form = id[:i] + fmt.Sprintf("%%%02x", id[i]) + id[i+1:]
				}
				at = strings.ReplaceAll(at, name, form)
			}
			req, err := http.NewRequestWithContext(context.Background(), method, s.url+at, bytes.NewReader([]byte(body)))
			if err != nil {
				return "not a request"
			}
			req.Header.Set("X-Api-Key", key)
			req.Header.Set("X-Access-Token", token)
			req.Header.Set("Content-Type", kind)
			switch id := of["SANDBOX"]; by {
			case "headers":
				req.Header.Set("E2b-Sandbox-Id", id)
				req.Header.Set("E2b-Sandbox-Port", port)
			case "host":
				req.Host = port + "-" + id + ".sandboxes.example"
			case "host with a port":
				req.Host = port + "-" + id + ".sandboxes.example:443"
			case "HOST":
				req.Host = strings.ToUpper(port + "-" + id + ".sandboxes.example")
			}
			resp, err := through.Do(req)
			if err != nil {
				return "no answer"
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			var out strings.Builder
			fmt.Fprintln(&out, resp.StatusCode, err)
			for _, name := range slices.Sorted(func(yield func(string) bool) {
				for name := range resp.Header {
					if name != "Date" && !yield(name) {
						return
					}
				}
			}) {
				fmt.Fprintln(&out, name, resp.Header[name])
			}
			answer := out.String() + string(text)
			for name, id := range of {
				answer = strings.ReplaceAll(strings.ReplaceAll(answer, id, name), strings.ToUpper(id), strings.ToUpper(name))
			}
			return answer
		}
		theirs, none := say(real), say(never)
		if by != "path" && (theirs[0] != '2' || path == "/health") {
			return // of who has the ID: a sandbox's health is open, as with E2B, and another's token is refused as a token
		}
		if theirs != none {
			t.Fatalf("%s %s by %s: %s\nand for what never was: %s", method, path, by, theirs, none)
		}
	})
	if a := b.read("kept"); a.status != 200 || a.body != "as it was" {
		t.Errorf("the sandbox afterwards: %d %q", a.status, a.body)
	}
	if a := s.api("acme", "GET", "/templates/mine", ""); a.status != 200 {
		t.Errorf("the template afterwards: %d %q", a.status, a.body)
	}
}
