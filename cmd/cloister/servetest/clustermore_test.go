//go:build cloister_cluster

package servetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClusterGit is a project that goes to a pod and comes back by git.
func TestClusterGit(t *testing.T) {
	s := newServer(t, "acme")
	namespace := s.onCluster("cloister.test/e2b:1", "pod")
	project := filepath.Join(s.dir, "home/project")
	if err := os.MkdirAll(project, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(words ...string) (string, error) {
		cmd := s.command(words...)
		cmd.Dir = project
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	git := func(words ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", words...)
		cmd.Dir, cmd.Env = project, append(slices.Clone(s.env), "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org",
			"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", words, err, out)
		}
		return string(out)
	}
	git("init", "--quiet", "--initial-branch=main")
	for name, text := range map[string]string{"file": "one\n", ".git/hooks/update": "#!/bin/sh\ntouch " + s.dir + "/hook\n"} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	git("add", "file")
	git("commit", "--quiet", "--message=first")
	began := time.Now()
	out, err := run("run", "--isolation", "kubernetes", "--workspace", "git", "--name", "k", "--", "bash", "-c",
		`git log --format=%s; cat file; ls /sys/class/net; echo two >file; git -c user.name=a -c user.email=a@b commit -qam second; echo left >left
git push -q origin HEAD:main && echo PUSHED; git push -q origin HEAD:refs/tags/v1 && echo PUSHED; true`)
	t.Logf("%v in all\n%s", time.Since(began), out)
	if err != nil || !strings.Contains(out, "first\none\nlo\n") || strings.Contains(out, "PUSHED") {
		t.Errorf("run: %v\n%s", err, out)
	}
	if got := git("log", "--format=%s", "main..cloister/k"); got != "second\n" {
		t.Errorf("came back: %q", got)
	}
	if got := git("show", "--format=", "--name-only", "cloister/k-uncommitted"); got != "left\n" {
		t.Errorf("uncommitted: %q", got)
	}
	if got := git("for-each-ref", "--format=%(refname)"); got != "refs/heads/cloister/k\nrefs/heads/cloister/k-uncommitted\nrefs/heads/main\n" {
		t.Errorf("refs: %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(project, "file")); err != nil || string(text) != "one\n" {
		t.Errorf("the file here: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "hook")); err == nil {
		t.Error("a hook of the project ran")
	}
	if left := kubectl(t, "", "--namespace="+namespace, "get", "pods", "--no-headers", "--ignore-not-found"); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}
}

// TestClusterAhead measures a request's first command, in a pod that waited and in one that is made for it.
func TestClusterAhead(t *testing.T) {
	for _, ahead := range []string{"0", "1"} {
		s := newServerOf(t, []string{"--ahead", ahead}, "acme")
		s.onCluster("cloister.test/e2b:1", "pod")
		s.create("acme", `{"templateID":"base","timeout":120}`)
		for range 5 {
			if ahead == "1" {
				spare := s.spares("acme", 1)[0]
				s.until("it is there", func() bool { return strings.Contains(s.record("acme"), "hold in "+spare) })
				<-time.After(time.Second) // its pod runs, and the server has it
			}
			began := time.Now()
			b := s.create("acme", `{"templateID":"base","timeout":120}`)
			made := time.Since(began)
			if got := b.output("echo here"); got != "here\n" {
				t.Errorf("inside: %q", got)
			}
			load, _ := os.ReadFile("/proc/loadavg")
			t.Logf("ahead %s: made after %v, the first command over after %v; load %s", ahead, made.Round(time.Millisecond),
				time.Since(began).Round(time.Millisecond), strings.Fields(string(load))[0])
			s.api("acme", "DELETE", "/sandboxes/"+b.id, "")
		}
	}
}
