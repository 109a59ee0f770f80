package pull_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/devcontainer/featurestest"
	"cloister/devcontainer/pull"

	"github.com/google/go-containerregistry/pkg/registry"
)

func TestPull(t *testing.T) {
	kept := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	var twist func(w http.ResponseWriter, r *http.Request) bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if twist == nil || !twist(w, r) {
			kept.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	packed, err := featurestest.Pack(map[string]string{"install.sh": "true", "devcontainer-feature.json": `{"id":"tool"}`})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := featurestest.Push(t.Context(), server, "team/tool:1", packed)
	if err != nil {
		t.Fatal(err)
	}

	ask := func(feature string) pull.Answer {
		t.Helper()
		var out bytes.Buffer
		if status := pull.Main(t.Context(), []string{feature}, &out); status != 0 {
			t.Fatalf("%s: status %d", feature, status)
		}
		var a pull.Answer
		if err := json.Unmarshal(out.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, feature := range []string{"/team/tool:1", "/team/tool@" + digest} {
		a := ask(host + feature)
		if files, err := a.Packed.Files(digest); a.Error != "" || err != nil || len(files) != 2 {
			t.Errorf("%s: %s %v %v", feature, a.Error, err, files)
		}
	}
	if a := ask(host + "/team/none:1"); !strings.Contains(a.Error, "no such feature") {
		t.Errorf("one that is not there: %q", a.Error)
	}
	blob := func(do func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/blobs/") {
				do(w)
				return true
			}
			return false
		}
	}
	for name, one := range map[string]struct {
		twist func(http.ResponseWriter, *http.Request) bool
		want  string
	}{
		"another archive": {blob(func(w http.ResponseWriter) { _, _ = w.Write(bytes.Repeat([]byte("x"), len(packed.Layer))) }),
			"sha256"},
		"a longer archive": {blob(func(w http.ResponseWriter) {
			_, _ = w.Write(packed.Layer)
			_, _ = w.Write(make([]byte, 1<<20))
		}), "3073"},
		"a shorter archive": {blob(func(w http.ResponseWriter) { _, _ = w.Write(packed.Layer[:len(packed.Layer)/2]) }), ""},
		"a refusal": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":"cloister","reason":"no rule names it"}`))
			return true
		}, "no rule names it"},
		"no feature": {func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/manifests/") {
				w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				_, _ = w.Write([]byte(`{"schemaVersion":2,"layers":[]}`))
				return true
			}
			return false
		}, "none of a feature"},
	} {
		twist = one.twist
		if a := ask(host + "/team/tool:1"); a.Error == "" || !strings.Contains(a.Error, one.want) {
			t.Errorf("%s: %q", name, a.Error)
		}
	}
	if status := pull.Main(t.Context(), nil, &bytes.Buffer{}); status != 2 {
		t.Errorf("without a name: status %d", status)
	}
}

// TestLogins: a registry that wants to know who asks gets the login of its own host, by
// itself and by a token, and no other's.
func TestLogins(t *testing.T) {
	kept := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	var open atomic.Bool
	var sent sync.Map
	var byToken atomic.Bool
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		sent.Store(password, true)
		switch {
		case open.Load(), r.Header.Get("Authorization") == "Bearer of-the-token-server", !byToken.Load() && password == "placeholder":
			kept.ServeHTTP(w, r)
		case r.URL.Path == "/token" && password == "placeholder":
			_, _ = w.Write([]byte(`{"token":"of-the-token-server"}`))
		default:
			way := `Basic realm="x"`
			if byToken.Load() {
				way = `Bearer realm="http://` + r.Host + `/token",service="x"`
			}
			w.Header().Set("WWW-Authenticate", way)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	server.Start()
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	packed, err := featurestest.Pack(map[string]string{"install.sh": "true", "devcontainer-feature.json": `{"id":"tool"}`})
	if err != nil {
		t.Fatal(err)
	}
	open.Store(true)
	if _, err := featurestest.Push(t.Context(), server, "team/tool:1", packed); err != nil {
		t.Fatal(err)
	}
	open.Store(false)
	file := filepath.Join(t.TempDir(), "netrc")
	write := func(host string) {
		text := "machine other.example\n\tlogin x\n\tpassword of-another\nmachine " + host + "\n\tlogin x\n\tpassword placeholder\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []bool{false, true} {
		byToken.Store(token)
		write("elsewhere.example")
		if _, err := pull.Fetch(t.Context(), host+"/team/tool:1", file); err == nil {
			t.Error("fetched without a login of its own")
		}
		write(host)
		if _, err := pull.Fetch(t.Context(), host+"/team/tool:1", file); err != nil {
			t.Error(err)
		}
	}
	if _, other := sent.Load("of-another"); other {
		t.Error("the registry got the login of another host")
	}
}
