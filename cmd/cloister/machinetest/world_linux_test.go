package machinetest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/internal/needs"
)

var binary string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == clientName {
		syscall.Exit(client(os.Args[1:])) // in a container
	}
	if os.Getenv(kernelsKey) == "" {
		os.Exit(m.Run()) // all are skipped
	}
	os.Exit(needs.Cloister(m, &binary))
}

// kernelsKey names the folder of an unpacked kernel of Debian's.
const kernelsKey = "CLOISTER_MICROVM_KERNEL"

// A world is one person's machine, with a kernel for guests set up by the product.
type world struct {
	t            *testing.T
	dir, project string
	env          []string
	tls          *tls.Config
}

// within bounds one call of cloister: an emulated machine on a busy one takes long.
const within = 25 * time.Minute

func newWorld(t *testing.T, settings func(*world) string) *world {
	t.Helper()
	from := os.Getenv(kernelsKey)
	if from == "" {
		t.Skip(kernelsKey + " names no kernel: script/test microvm")
	}
	dir, err := os.MkdirTemp("/srv", "vm") // /tmp is the guest's own
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, project: filepath.Join(dir, "home/src/project")}
	t.Cleanup(w.close)
	for _, at := range []string{"home/src/project", "config/cloister", "state", "data", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, at), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.env = []string{"HOME=" + dir + "/home", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8", "USER=tester",
		"TERM=xterm", "XDG_CONFIG_HOME=" + dir + "/config", "XDG_STATE_HOME=" + dir + "/state", "XDG_DATA_HOME=" + dir + "/data",
		"XDG_RUNTIME_DIR=" + dir + "/run"}
	w.certify("api.example", "registry.example", "forbidden.example")
	w.write("config/cloister/config.yaml", settings(w))
	images, _ := filepath.Glob(from + "/boot/vmlinuz-*")
	modules, _ := filepath.Glob(from + "/lib/modules/*")
	if len(images) != 1 || len(modules) != 1 {
		t.Fatalf("%s has the kernels %q and modules %q", from, images, modules)
	}
	began := time.Now()
	w.must("setup", "microvm", "--kernel", images[0], "--modules", modules[0])
	t.Logf("set up in %v", time.Since(began).Round(time.Millisecond))
	return w
}

func (w *world) close() {
	if out, errs, status := w.try("stop", "--all", "-t", "0s"); status != 0 {
		w.t.Logf("stop --all: %s%s", out, errs)
	}
	if out, errs, status := w.try("guardian", "stop"); status != 0 {
		w.t.Logf("guardian stop: %s%s", out, errs)
	}
	_ = filepath.WalkDir(w.dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(name, 0o700) // an engine may have closed it
		}
		return nil
	})
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Error(err)
	}
}

func (w *world) write(name, text string) {
	w.t.Helper()
	at := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// command is cloister in the project.
func (w *world) command(ctx context.Context, words ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, binary, words...)
	c.Dir, c.Env = w.project, w.env
	return c
}

// try runs cloister to its end.
func (w *world) try(words ...string) (out, errs string, status int) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	c := w.command(ctx, words...)
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		w.t.Fatalf("cloister %q: %v", words, err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

// must runs cloister, which is to succeed.
func (w *world) must(words ...string) string {
	w.t.Helper()
	out, errs, status := w.try(words...)
	if status != 0 {
		w.t.Fatalf("cloister %q: status %d\n%s%s", words, status, out, errs)
	}
	return out
}

// sh runs a script in a cloister.
func (w *world) sh(name, script string) (out string, status int) {
	w.t.Helper()
	out, errs, status := w.try("exec", name, "--", "sh", "-c", "exec 2>&1; "+script)
	if status != 0 && strings.Contains(errs, "cloister:") {
		out += errs
	}
	return out, status
}

// audited reports whether a line of the record has each of the words.
func (w *world) audited(words ...string) bool {
	w.t.Helper()
	text, errs, status := w.try("audit", "tail", "-n", "1000", "--json")
	if status != 0 {
		w.t.Fatal(errs)
	}
	for line := range strings.Lines(text) {
		found := true
		for _, word := range words {
			found = found && strings.Contains(line, word)
		}
		if found {
			return true
		}
	}
	return false
}

// eventually waits for something that another process does.
func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	end := time.After(within)
	for !done() {
		select {
		case <-end:
			w.t.Fatalf("it did not come to this: %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// certify makes an authority for names, which the guardian trusts.
func (w *world) certify(names ...string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("authority.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	w.tls = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// asked is a server on loopback that remembers what it was asked.
type asked struct {
	*httptest.Server
	mu   sync.Mutex
	list []string
}

func (a *asked) heard() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.list, "\n")
}

// serve starts such a server, with TLS or without.
func (w *world) serve(secure bool, then http.Handler) *asked {
	a := &asked{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.list = append(a.list, r.Method+" "+r.Host+r.URL.Path+" "+r.Header.Get("Authorization"))
		a.mu.Unlock()
		then.ServeHTTP(rw, r)
	}))
	if secure {
		a.TLS = w.tls
		a.StartTLS()
	} else {
		a.Start()
	}
	w.t.Cleanup(a.Close)
	return a
}
