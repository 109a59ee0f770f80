package probe_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"cloister/agent/probe"
)

func TestProbe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, "/models", http.StatusFound)
		case r.URL.Path == "/refused":
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error": "cloister", "reason": "no rule names it"}`))
		case r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer placeholder" || r.Header.Get("X-Version") != "1":
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	variable := func(name string) string { return map[string]string{"KEY": "placeholder"}[name] }
	for path, want := range map[string]probe.Answer{
		"/models":  {Status: 200},
		"/away":    {Status: 302},
		"/refused": {Status: 403, Ours: true, Error: "no rule names it"},
	} {
		var out bytes.Buffer
		args := []string{server.URL + path, "Authorization: Bearer {$KEY}", "X-Version: 1"}
		if status := probe.Main(t.Context(), args, variable, &out); status != 0 {
			t.Errorf("%s: status %d", path, status)
		}
		var got probe.Answer
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != want {
			t.Errorf("%s: %+v (%v), want %+v", path, got, err, want)
		}
	}
	var out bytes.Buffer
	if status := probe.Main(t.Context(), []string{"http://127.0.0.1:1/"}, variable, &out); status != 0 {
		t.Errorf("status %d", status)
	}
	var got probe.Answer
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Status != 0 || got.Error == "" {
		t.Errorf("nobody listens: %+v (%v)", got, err)
	}
	if status := probe.Main(t.Context(), nil, variable, &out); status != 2 {
		t.Errorf("without an address: status %d", status)
	}
}
