package lsmtest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/needs"
)

// engineFiles are a Docker Engine of this machine, with the libraries that it needs, by their paths in a guest.
func engineFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"dockerd", "containerd", "containerd-shim-runc-v2", "runc", "mkfs.ext4"} {
		at := needs.Program(t, "docker", name)
		files["bin/"+name] = at
		out, err := exec.CommandContext(t.Context(), "ldd", at).Output()
		if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
			t.Fatalf("ldd %s: %v", at, err)
		}
		for field := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(field, "/lib/x86_64-linux-gnu/") {
				files[field[1:]] = field
			}
		}
	}
	return files
}

const socket = "/run/docker.sock"

// host is an engine in the guest, by its API.
type host struct {
	t *testing.T
	http.Client
}

// startEngine starts the guest's engine, on file systems that it can lie on: the root is a tmpfs, which older
// kernels map no owners of.
func startEngine(t *testing.T) *host {
	t.Helper()
	if _, err := os.Stat("/bin/dockerd"); err != nil {
		t.Skip("runs in a guest that has an engine, which TestGuest starts: script/test lsm")
	}
	ctx := context.Background()
	modules, _ := filepath.Glob("/modules/*")
	for _, name := range modules {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			t.Fatalf("insert %s: %v", name, err)
		}
	}
	run := func(words ...string) {
		t.Helper()
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", words, err, out)
		}
	}
	disk, err := os.Create("/disk")
	if err := errors.Join(err, disk.Truncate(300<<20), disk.Close(), os.MkdirAll("/data", 0o755), os.MkdirAll("/var", 0o755),
		os.Symlink("/run", "/var/run")); err != nil {
		t.Fatal(err)
	}
	run("/bin/mkfs.ext4", "-q", "-F", "/disk")
	run("/bin/busybox", "mount", "-t", "ext4", "-o", "loop", "/disk", "/data")
	// What a session shows lies there.
	for _, dir := range []string{"/work", "/root", "/bin/cloister"} {
		run("/bin/busybox", "mkdir", "-p", "/data"+filepath.Dir(dir))
		run("/bin/busybox", "cp", "-a", dir, "/data"+dir)
		if err := unix.Mount("/data"+dir, dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove("/work/also"), os.Link("/work/secret", "/work/also")); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create("/engine.log")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, "/bin/dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
		"--ip-masq=false", "--data-root", "/data/engine", "-H", "unix://"+socket)
	c.Stdout, c.Stderr, c.Env = log, log, append(os.Environ(), "PATH=/bin:/sbin")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(unix.SIGTERM)
		_ = c.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			fmt.Printf("the engine: %s\n", text[max(0, len(text)-8000):])
		}
	})
	e := &host{t: t, Client: http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	tick, late := time.NewTicker(200*time.Millisecond), time.After(5*time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the engine does not answer")
		}
		if r, err := e.Get("http://e/_ping"); err == nil {
			r.Body.Close()
			return e
		}
	}
}

// call asks the engine; its answer is JSON, or anything for nil.
func (e *host) call(method, path string, in, out any) string {
	e.t.Helper()
	var body io.Reader
	kind := "application/json"
	switch in := in.(type) {
	case nil:
	case []byte:
		body, kind = bytes.NewReader(in), "application/x-tar"
	default:
		text, err := json.Marshal(in)
		if err != nil {
			e.t.Fatal(err)
		}
		body = bytes.NewReader(text)
	}
	q, err := http.NewRequestWithContext(context.Background(), method, "http://e"+path, body)
	if err != nil {
		e.t.Fatal(err)
	}
	q.Header.Set("Content-Type", kind)
	r, err := e.Do(q)
	if err != nil {
		e.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode >= http.StatusBadRequest {
		return fmt.Sprintf("%s %s: %s %v %s", method, path, r.Status, err, text)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			e.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return string(text)
}

// image imports an image of busybox, a folder with another name of it, and a file that has two.
func (e *host) image(name string) {
	e.t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		e.t.Fatal(err)
	}
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	add := func(h tar.Header, data []byte) {
		h.Size, h.Format = int64(len(data)), tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			e.t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			e.t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "etc/", "tmp/", "image/", "image/tools/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	add(tar.Header{Name: "bin/busybox", Mode: 0o755}, busybox)
	add(tar.Header{Name: "image/tools/busybox", Mode: 0o755}, busybox)
	add(tar.Header{Name: "image/secret", Mode: 0o644}, []byte("image secret\n"))
	add(tar.Header{Typeflag: tar.TypeLink, Name: "image/also", Linkname: "image/secret", Mode: 0o644}, nil)
	for to := range strings.FieldsSeq("sh cat cp ln mv rm echo sleep mount") {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + to, Linkname: "busybox", Mode: 0o777}, nil)
	}
	if err := w.Close(); err != nil {
		e.t.Fatal(err)
	}
	if out := e.call("POST", "/images/create?fromSrc=-&repo="+name, text.Bytes(), nil); !strings.Contains(out, "sha256:") {
		e.t.Fatalf("import: %s", out)
	}
}

// container is the one of a session's command.
func (e *host) container(session string) string {
	e.t.Helper()
	var list []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	e.call("GET", "/containers/json", nil, &list)
	for _, c := range list {
		if c.Labels["cloister.name"] == session && c.Labels["cloister.role"] == "init" {
			return c.ID
		}
	}
	e.t.Fatalf("no container of session %s in %+v", session, list)
	return ""
}

// execute has the host's root execute something in a container, and gives what it wrote or why it did not.
func (e *host) execute(id string, more map[string]any, words ...string) string {
	e.t.Helper()
	body := map[string]any{"Cmd": words, "AttachStdout": true, "AttachStderr": true, "Tty": true}
	maps.Copy(body, more)
	var made struct{ ID string }
	if out := e.call("POST", "/containers/"+id+"/exec", body, &made); made.ID == "" {
		return out
	}
	return e.call("POST", "/exec/"+made.ID+"/start", map[string]any{"Detach": false, "Tty": true}, nil)
}

func inode(fi os.FileInfo) uint64 { return fi.Sys().(*syscall.Stat_t).Ino }
