package image_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox/image"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestLogins: a registry gets the login that a file has for it, and a program that the file
// names is not run.
func TestLogins(t *testing.T) {
	kept, want := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))), ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); want != "" && password != want {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		kept.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	ref, err := name.ParseReference(host + "/team/private:1")
	if err != nil {
		t.Fatal(err)
	}
	img, err := random.Image(64, 1)
	if err == nil {
		err = remote.Write(ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	want = "the-password"
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	helper := "#!/bin/sh\ntouch " + ran + "\necho '{\"Username\":\"x\",\"Secret\":\"the-password\"}'\n"
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-trap"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER_CONFIG", dir)
	for text, shown := range map[string]bool{
		`{"auths":{"HOST":{"auth":"eDp0aGUtcGFzc3dvcmQ="}}}`:                      true, // x:the-password
		`{"auths":{"other.example":{"auth":"eDp0aGUtcGFzc3dvcmQ="}}}`:             false,
		`{"auths":{"HOST":{}},"credsStore":"trap","credHelpers":{"HOST":"trap"}}`: false,
		`{"auths":{"HOST":{"auth":"eDp0aGUtcGFzc3dvcmQ="}},"credsStore":"trap"}`:  true,
		`{"auths":{"HOST":{"username":"x","password":"the-password"}}}`:           true,
		`not an object`: false,
	} {
		file := filepath.Join(dir, "config.json")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "HOST", host)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := image.Open(t.TempDir()).LoggedIn(file).Get(t.Context(), ref.String(), func(string) {})
		// A random image is no system of this machine's: what is wanted is to get so far.
		if refused := err != nil && strings.Contains(err.Error(), "shows it to others only"); refused == shown {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a helper was run")
	}
}
