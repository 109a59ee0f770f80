package main_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBucket ships a record to a real S3 server, which script/bucket builds, fetches it, and rolls the server
// back by its files.
func TestBucket(t *testing.T) {
	server := os.Getenv("CLOISTER_S3")
	if server == "" {
		t.Skip("script/test bucket builds the server, in some minutes")
	}
	dir := t.TempDir()
	build(t, dir, "cloister", "cloister-fleet")
	env, project := instance(t, dir)
	env = append(env, "AWS_ACCESS_KEY_ID=cloister", "AWS_SECRET_ACCESS_KEY=not-a-secret")
	run := func(name string, words ...string) (string, error) {
		t.Helper()
		c := exec.CommandContext(t.Context(), filepath.Join(dir, name), words...)
		c.Env, c.Dir = env, project
		out, err := c.CombinedOutput()
		return string(out), err
	}
	want := func(text string, name string, words ...string) {
		t.Helper()
		out, err := run(name, words...)
		if err != nil || !strings.Contains(out, text) {
			t.Fatalf("%s %v: %v, %s", name, words, err, out)
		}
	}
	store := filepath.Join(dir, "s3")
	if err := os.MkdirAll(filepath.Join(store, "records"), 0o700); err != nil {
		t.Fatal(err)
	}
	at := serveS3(t, server, store)
	defer func() { _, _ = run("cloister", "guardian", "stop") }()
	where := "--bucket=http://" + at + "/records/host-1"
	want("", "cloister", "run", "--", "true")
	want("is in the bucket", "cloister-fleet", "ship", where)
	earlier := filepath.Join(dir, "earlier")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", store, earlier).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	want("", "cloister", "run", "--", "id")
	want("is in the bucket", "cloister-fleet", "ship", where)
	want("unbroken", "cloister-fleet", "fetch", where, filepath.Join(dir, "copy"))
	verified, err := run("cloister", "audit", "verify")
	if err != nil {
		t.Fatal(verified)
	}
	// The server is rolled back to what it was before the second run.
	if err := os.RemoveAll(filepath.Join(store, "records", "host-1")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(earlier, "records", "host-1"),
		filepath.Join(store, "records")).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	out, err := run("cloister-fleet", "fetch", where, filepath.Join(dir, "rolled-back"))
	if err == nil || !strings.Contains(out, "the record ends before") {
		t.Errorf("rolled back: %v, %s", err, out)
	}
}

// serveS3 starts versitygw on a folder.
func serveS3(t *testing.T, program, dir string) (at string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at = l.Addr().String()
	_ = l.Close()
	c := exec.CommandContext(t.Context(), program, "--port", at, "--access", "cloister", "--secret", "not-a-secret", "posix", dir)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		<-over
	})
	for {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close()
			return at
		}
		select {
		case err := <-over:
			over <- err
			t.Fatalf("the server ended: %v\n%s", err, said.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
