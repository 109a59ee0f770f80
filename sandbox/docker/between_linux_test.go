package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
)

// What stands between a driver and the engine in tests.

// engineClient asks the engine itself.
func engineClient(t *testing.T) *http.Client {
	t.Helper()
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", engineSocket(t))
	}}}
}

// handOn has the engine do what it is asked, whether or not who asked still waits.
func handOn(engine *http.Client, r *http.Request, body []byte) (*http.Response, error) {
	ask, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, "http://engine"+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(ask.Header, r.Header)
	return engine.Do(ask)
}

// handBack gives who asked the engine's answer.
func handBack(w http.ResponseWriter, resp *http.Response) {
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // who asked may have gone
}

// createsAgent tells of the question by which the agent's container comes to be.
func createsAgent(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/containers/create") && strings.HasSuffix(r.URL.Query().Get("name"), "-init")
}

// edited is what the engine is told of a container, changed.
func edited(t *testing.T, text []byte, change func(body, host map[string]any)) []byte {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		t.Error(err)
	}
	change(body, body["HostConfig"].(map[string]any))
	text, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
	}
	return text
}
