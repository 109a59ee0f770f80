package machinetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// rootKey names a folder with a database's program and what it needs, as script/microvm-database
// makes it.
const rootKey = "CLOISTER_MICROVM_DATABASE"

// composeKey names Docker's compose, as script/microvm-database builds it: Debian 12's is Python, which
// took an emulated guest minutes to load.
const composeKey = "CLOISTER_MICROVM_COMPOSE"

// TestCompose brings up a service and its database in a machine's own engine: each image comes
// from a registry that policy allows, and none from another.
func TestCompose(t *testing.T) {
	root, tool := os.Getenv(rootKey), os.Getenv(composeKey)
	if root == "" || tool == "" {
		t.Skip(rootKey + " names no folder: script/test microvm")
	}
	var images *asked
	w := newWorld(t, func(w *world) string {
		images = w.serve(true, registry.New())
		at := images.Listener.Addr().String()
		return fmt.Sprintf(`version: 1
proxy:
  unlisted_domain_behavior: deny
  presets: []
  allow: [{domain: registry.example, methods: [GET, HEAD]}]
  upstream_ca: [%q]
  hosts: {registry.example: %q, forbidden.example: %[2]q}
`, w.dir+"/authority.pem", at)
	})
	push(t, images, root, "team/database:1")
	w.write("home/src/project/compose.yaml", compose)
	began := time.Now()
	lap := func(what string) {
		t.Logf("%s: %v", what, time.Since(began).Round(time.Second/10))
		began = time.Now()
	}
	w.must("run", "-d", "--name", "e", "--isolation", "microvm", "--accept", "residue:microvm-emulated", "--accept", "residue:microvm-engine",
		"--expose", tool+":ro", "-e", "COMPOSE="+tool, "--", "sh", "-c", "while :; do sleep 1; done")
	if _, status := w.sh("e", "true"); status != 0 {
		t.Fatalf("nothing runs in the machine: %d", status)
	}
	lap("a machine, from the word to the first command's end")
	out, status := w.sh("e", "docker version --format '{{.Server.Version}}'")
	if status != 0 {
		log, _ := w.sh("e", "tail -5 /run/docker.log")
		t.Fatalf("the engine: %d, %s%s", status, out, log)
	}
	lap("its engine, " + strings.TrimSpace(out))
	out, status = w.sh("e", "docker pull forbidden.example/team/database:1")
	if status == 0 || strings.Contains(images.heard(), "forbidden.example") {
		t.Errorf("an image of a registry that is not allowed: %d, %s\n%s", status, out, images.heard())
	}
	if !w.audited("forbidden.example", `"verdict":"deny"`) {
		t.Error("the record has no refusal of forbidden.example")
	}
	lap("a refused pull")
	if out, status = w.sh("e", "$COMPOSE up -d 2>&1"); status != 0 {
		log, _ := w.sh("e", "tail -5 /run/docker.log")
		t.Fatalf("docker-compose up: %d\n%s%s", status, out, log)
	}
	lap("docker-compose up")
	if !w.audited("registry.example", `"verdict":"allow"`) {
		t.Error("the record has no connection to registry.example")
	}
	// What the service answers with has been in the database.
	var got string
	w.eventually("the service answers", func() bool {
		got, status = w.sh("e", "curl -sS -m 20 http://127.0.0.1:8080/visits")
		return status == 0 && strings.Contains(got, "visits 1")
	})
	lap("the service's first answer")
	looks := map[string]string{
		// A container has no way out but the gate.
		"$COMPOSE exec -T app client get http://forbidden.example/":                                                      "",
		"$COMPOSE exec -T app client get http://198.51.100.7/":                                                           "",
		"docker run --rm --privileged --net=host registry.example/team/database:1 client get http://forbidden.example/x": "",
	}
	for script, want := range looks {
		if out, status := w.sh("e", script); status == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d, %s", script, status, out)
		}
	}
	lap("three ways out of containers")
	host, status := w.sh("e", "docker run --rm --privileged -v /:/host registry.example/team/database:1 busybox sh -c "+
		"'ls /host/root /host"+w.dir+"; echo x >/host"+w.project+"/.envrc; echo x >/host"+w.project+"/roots; id -u'")
	if strings.Contains(host, "authority.pem") || !strings.HasSuffix(host, "0\n") {
		t.Errorf("root of a container sees %d, %q", status, host)
	}
	// The host has no user for a guest's root; a container that is the project's user writes.
	if out, status := w.sh("e", "docker run --rm -u 1000:1000 -v "+w.project+":/app registry.example/team/database:1 "+
		"busybox sh -c 'echo x >/app/made'"); status != 0 {
		t.Errorf("a container of the project's user: %d, %s", status, out)
	}
	for name, may := range map[string]bool{".envrc": false, "roots": false, "made": true} {
		text, err := os.ReadFile(filepath.Join(w.project, name))
		if (err == nil && string(text) == "x\n") != may {
			t.Errorf("%s on the host: %q, %v", name, text, err)
		}
	}
	lap("a privileged container")
	if out, status := w.sh("e", "$COMPOSE down 2>&1 && docker ps -q"); status != 0 || strings.Contains(out, "rror") {
		t.Errorf("docker-compose down: %d, %s", status, out)
	}
	lap("docker-compose down")
	w.must("stop", "e")
}

// compose is a service that counts its visits in a database.
const compose = `version: "3.8"
services:
  db:
    image: registry.example/team/database:1
    command: [redis-server, --save, "", --bind, 0.0.0.0, --protected-mode, "no"]
  app:
    image: registry.example/team/database:1
    depends_on: [db]
    ports: ["8080:8080"]
    command: [client, serve, ":8080"]
`

// push puts an image of a folder into a registry, with this program as its client.
func push(t *testing.T, images *asked, root, as string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: "amd64", OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Env: []string{"PATH=/usr/bin:/bin"}}})
	if err == nil {
		img, err = mutate.AppendLayers(img, layerOf(t, root, map[string][]byte{"usr/bin/" + clientName: program}))
	}
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(images.Listener.Addr().String() + "/" + as)
	if err != nil {
		t.Fatal(err)
	}
	trusting := images.Client().Transport.(*http.Transport).Clone()
	trusting.TLSClientConfig.ServerName = "registry.example"
	if err := remote.Write(ref, img, remote.WithTransport(trusting)); err != nil {
		t.Fatal(err)
	}
}

// layerOf is a folder as a layer of an image, with programs beside its files.
func layerOf(t *testing.T, root string, programs map[string][]byte) v1.Layer {
	t.Helper()
	var text bytes.Buffer
	to := tar.NewWriter(&text)
	for at, program := range programs {
		err := to.WriteHeader(&tar.Header{Name: at, Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = to.Write(program)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == root {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		link := ""
		if fi.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(at); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(fi, link)
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(root, at); err != nil {
			return err
		}
		h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
		if err := to.WriteHeader(h); err != nil || !fi.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(to, f)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(slices.Clone(text.Bytes()))), nil })
	if err != nil {
		t.Fatal(err)
	}
	return layer
}
