//go:build cloister_cluster

package servetest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// These tests need a Kubernetes of one node, beside which they run: script/test kubernetes.

// must runs a program of the node.
func must(t *testing.T, in string, words ...string) string {
	t.Helper()
	out, err := try(t, in, words...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return out
}

func try(t *testing.T, in string, words ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func kubectl(t *testing.T, in string, words ...string) string {
	t.Helper()
	return must(t, in, append([]string{os.Getenv("CLOISTER_CLUSTER_KUBECTL"), "--kubeconfig=" + os.Getenv("CLOISTER_CLUSTER_ADMIN")}, words...)...)
}

func ctr(t *testing.T, words ...string) string {
	t.Helper()
	return must(t, "", append([]string{"ctr", "--address=/run/containerd/containerd.sock", "--namespace=k8s.io"}, words...)...)
}

// agentImage writes an image of the host's own programs that an E2B sandbox needs.
func agentImage(t *testing.T, to, tag string) {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	put := func(h tar.Header, text []byte) {
		h.Size = int64(len(text))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"bin/", "usr/", "usr/bin/", "lib/", "lib64/", "etc/", "tmp/", "proc/", "sys/", "dev/", "home/", "root/"} {
		mode := int64(0o755)
		if d == "tmp/" {
			mode = 0o1777
		}
		put(tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: mode}, nil)
	}
	had := map[string]bool{}
	host := func(path string) {
		if had[path] {
			return
		}
		had[path] = true
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		put(tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755}, text)
	}
	for _, p := range []string{"/bin/bash", "/bin/cat", "/usr/bin/id", "/usr/bin/git", "/usr/bin/getent", "/usr/bin/timeout", "/bin/stty", "/bin/ls",
		"/bin/sleep", "/bin/mkdir", "/bin/rm", "/bin/mv", "/usr/bin/env", "/bin/touch", "/usr/bin/base64", "/usr/bin/head", "/usr/bin/test", "/bin/chmod",
		"/usr/bin/dirname", "/bin/readlink", "/usr/bin/realpath", "/usr/bin/find", "/bin/tar", "/usr/bin/sort", "/usr/bin/stat", "/usr/bin/basename",
		"/usr/bin/cut", "/usr/bin/tr", "/bin/sed", "/bin/grep", "/usr/bin/wc", "/bin/uname", "/bin/date", "/bin/cp", "/bin/ln", "/usr/bin/mktemp"} {
		host(p)
		out, err := exec.CommandContext(t.Context(), "ldd", p).Output()
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") {
				host(word)
			}
		}
	}
	host("/bin/busybox") // a server of pages
	put(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/sh", Linkname: "bash"}, nil)
	put(tar.Header{Typeflag: tar.TypeReg, Name: "root/.bashrc", Mode: 0o600}, []byte("secret"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	one, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/bin/sleep", "2147483647"}}}) // it holds the pods' namespaces too
	if err == nil {
		img, err = mutate.AppendLayers(img, one)
	}
	named, nerr := name.NewTag(tag)
	if err := errors.Join(err, nerr); err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(to, named, img); err != nil {
		t.Fatal(err)
	}
}

// onCluster has the server's tenants have pods.
func (s *server) onCluster(image, maker string) (namespace string) {
	t := s.t
	t.Helper()
	namespace = "serve-" + strings.ToLower(rand.Text()[:8])
	agents := filepath.Join(s.dir, "agent.tar")
	agentImage(t, agents, image)
	ctr(t, "images", "import", agents)
	if !strings.Contains(ctr(t, "images", "list", "--quiet"), "cloister.test/agent:1") {
		ctr(t, "images", "tag", image, "cloister.test/agent:1") // the sandbox image of the node
	}
	file := filepath.Join(s.dir, "gate.tar")
	digest := strings.TrimSpace(s.do("setup", "kubernetes", "--gate-image", file))
	gate := "cloister.test/gate@" + digest
	ctr(t, "images", "import", "--digests", "--base-name=cloister.test/gate", file)
	if !strings.Contains(ctr(t, "images", "list", "--quiet"), gate) {
		ctr(t, "images", "tag", "cloister.invalid/gate:latest", gate)
	}
	words := []string{"setup", "kubernetes", "--address", os.Getenv("CLOISTER_CLUSTER_NODE"), "--image", image, "--gate", gate, "--namespace", namespace, "--maker", maker}
	kubectl(t, s.do(append(slices.Clone(words), "--manifests")...), "apply", "--filename=-")
	t.Cleanup(func() { kubectl(t, "", "delete", "namespace", namespace, "--wait=false") })
	cmd := s.command(words...)
	cmd.Env = append(slices.Clone(s.env), "KUBECONFIG="+os.Getenv("CLOISTER_CLUSTER_USER"), "PATH="+filepath.Dir(os.Getenv("CLOISTER_CLUSTER_KUBECTL"))+":/usr/bin:/bin")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("setup: %v\n%s", err, out)
	}
	stranger := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"stranger"},"spec":{"containers":[{"name":"a","image":"x"}]}}`
	for { // until the admission policy rules
		out, err := try(t, stranger, os.Getenv("CLOISTER_CLUSTER_KUBECTL"), "--kubeconfig="+os.Getenv("CLOISTER_CLUSTER_ADMIN"), "--namespace="+namespace,
			"create", "--dry-run=server", "--filename=-")
		if err != nil && strings.Contains(out, "ValidatingAdmissionPolicy") {
			break
		}
		if t.Context().Err() != nil {
			t.Fatalf("the admission policy does not rule: %v\n%s", err, out)
		}
		<-time.After(100 * time.Millisecond)
	}
	for tenant := range s.keys {
		at := glob(t, filepath.Join(s.dir, "*/cloister/serve/t", tenant))
		if len(at) != 1 {
			t.Fatalf("the tenant's folder: %v", at)
		}
		dir := filepath.Join(at[0], "config/cloister")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("defaults:\n  isolation: kubernetes\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return namespace
}

// newDomain is a machine on which the domain of a server is known, and its authority.
func newDomain(t *testing.T) *suite {
	t.Helper()
	w := &suite{t: t}
	tmp := t.TempDir()
	w.authority(tmp, domainNames())
	w.trusted(tmp)
	w.names()
	return w
}

// TestClusterSDK runs the programs of TestSDK, unchanged, with sandboxes that are pods: by the server's domain as on
// the Internet, and by two addresses. Pods are made by this program, and by agent-sandbox.
func TestClusterSDK(t *testing.T) {
	run := func(t *testing.T, s *server, maker string, programs []string, env ...string) {
		namespace := s.onCluster("cloister.test/e2b:1", maker)
		for _, program := range programs {
			t.Run(program, func(t *testing.T) {
				began := time.Now()
				cmd := exec.CommandContext(t.Context(), "node", program)
				cmd.Dir, cmd.Env = sdk(t, program), append(append(os.Environ(), "E2B_API_KEY="+s.keys["acme"], "OPENAI_AGENTS_DISABLE_TRACING=1"), env...)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.HasSuffix(string(out), "all well\n") {
					t.Errorf("%v: %s", err, out)
				}
				load, _ := os.ReadFile("/proc/loadavg")
				t.Logf("%v in all, load %s", time.Since(began).Round(time.Millisecond), strings.Fields(string(load))[0])
			})
		}
		if record := s.record("acme"); !strings.Contains(record, "/bin/bash -l -c") {
			t.Errorf("the tenant's record has none of it:\n%s", record)
		}
		left := "cloister-"
		for until := time.Now().Add(2 * time.Minute); strings.Contains(left, "cloister-") && time.Now().Before(until); {
			<-time.After(time.Second) // a sandbox is gone for its client before its pod is
			left = kubectl(t, "", "--namespace="+namespace, "get", "pods", "--no-headers", "--ignore-not-found")
			if maker == "sandbox" {
				left += kubectl(t, "", "--namespace="+namespace, "get", "sandboxes.agents.x-k8s.io", "--no-headers", "--ignore-not-found")
			}
		}
		if strings.Contains(left, "cloister-") {
			t.Errorf("left: %s", left)
		}
	}
	t.Run("domain", func(t *testing.T) {
		w := newDomain(t)
		s := newServerAt(t, "127.0.0.1:443", []string{"--ahead", "0"},
			[]string{"--domain", suiteDomain, "--tls-cert", w.cert, "--tls-key", w.key}, "acme")
		run(t, s, "pod", []string{"sdk.mjs", "provider.mjs", "agent.mjs"}, "E2B_DOMAIN="+suiteDomain, "NODE_EXTRA_CA_CERTS="+w.ca)
	})
	t.Run("addresses", func(t *testing.T) {
		s := newServer(t, "acme")
		run(t, s, "pod", []string{"sdk.mjs", "provider.mjs"}, "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url)
	})
	t.Run("agent-sandbox", func(t *testing.T) {
		if os.Getenv("CLOISTER_AGENT_SANDBOX") == "" {
			t.Fatal("there is no agent-sandbox: script/test kubernetes")
		}
		s := newServer(t, "acme")
		run(t, s, "sandbox", []string{"sdk.mjs", "agent.mjs"}, "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url)
	})
}

// TestClusterOverlay is a person's day with pods: run, diff, apply, and the next run.
func TestClusterOverlay(t *testing.T) {
	s := newServer(t, "acme")
	s.onCluster("cloister.test/e2b:1", "pod")
	project := filepath.Join(s.dir, "home/project")
	for name, text := range map[string]string{"a": "1\n", "dir/b": "2\n", ".envrc": "x\n"} {
		file := filepath.Join(project, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(words ...string) (string, error) {
		cmd := s.command(words...)
		cmd.Dir = project
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	pod := func(script string) (string, error) {
		return run("run", "--isolation", "kubernetes", "--workspace", "overlay", "--name", "k", "--", "bash", "-c", script)
	}
	out, err := pod(`cat a dir/b; pwd; echo 3 >a; echo new >c; rm -r dir; echo evil >.envrc; exit 5`)
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != 5 || !strings.Contains(out, "1\n2\n"+project+"\n") ||
		!strings.Contains(out, "changed in the overlay, not in the project") {
		t.Fatalf("run: %v\n%s", err, out)
	}
	if out, err = run("diff", "k", "--name-only"); err != nil || !strings.Contains(out, "dir/b") || !strings.Contains(out, "a\n") || !strings.Contains(out, "c") {
		t.Errorf("diff: %v\n%s", err, out)
	}
	if out, err = run("apply", "k"); err == nil || !strings.Contains(out, ".envrc") {
		t.Errorf("apply of what programs of the host obey: %v\n%s", err, out)
	}
	if out, err = run("apply", "k", "a", "c", "dir"); err != nil {
		t.Errorf("apply: %v\n%s", err, out)
	}
	for name, want := range map[string]string{"a": "3\n", "c": "new\n", ".envrc": "x\n"} {
		if text, err := os.ReadFile(filepath.Join(project, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := os.Stat(filepath.Join(project, "dir")); err == nil {
		t.Error("what was removed is there")
	}
	if out, err = pod("cat a .envrc"); err != nil || !strings.Contains(out, "3\nevil\n") {
		t.Errorf("the next run: %v\n%s", err, out)
	}
	if out, err = run("discard", "k"); err != nil {
		t.Errorf("discard: %v\n%s", err, out)
	}
	if out, err = run("run", "--isolation", "kubernetes", "--workspace", "live", "--", "true"); err == nil || !strings.Contains(out, "--workspace overlay") {
		t.Errorf("a live project: %v\n%s", err, out)
	}
}
