package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProjectRunsNothing: what a project's own configuration names is not run on this host, whichever way commits go:
// whoever made the project chose it.
func TestProjectRunsNothing(t *testing.T) {
	h := newHosted(t)
	project, ran := filepath.Join(h.dir, "project"), filepath.Join(h.dir, "ran")
	far := filepath.Join(h.dir, "remote.git")
	h.must("clone", "-q", far, project)
	h.order.Remote, h.order.Project = project, true
	words := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(project, ".git", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o755)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	was := func(what string) {
		t.Helper()
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: what the project configures was run", what)
			_ = os.Remove(ran)
		}
	}
	for _, name := range []string{"pre-receive", "update", "post-receive", "reference-transaction"} {
		words("hooks/"+name, "#!/bin/sh\ntouch "+ran+"\n")
	}
	words("objects/info/alternates", far+"/objects\n")
	words("config", "[core]\n\talternateRefsCommand = touch "+ran+"; true\n\tfsmonitor = touch "+ran+"\n")
	h.commit("second", "file", "two\n")
	tree := h.must("rev-parse", "HEAD^{tree}")
	// The control: git as it is runs it.
	h.must("push", "-q", project, "HEAD:refs/heads/control")
	if _, err := os.Stat(ran); err != nil {
		t.Fatal("the control: nothing was run")
	}
	h.must("push", "-q", project, ":refs/heads/control")
	_ = os.Remove(ran)

	out, err := h.push("HEAD:refs/heads/cloister/k")
	if err != nil || !strings.Contains(h.must("--git-dir="+project+"/.git", "for-each-ref"), "refs/heads/cloister/k") {
		t.Errorf("%v\n%s", err, out)
	}
	was("a push")

	// A tree that is missing is with another repository, whose words are a program.
	words("config", "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = far\n"+
		"[remote \"far\"]\n\turl = "+far+"\n\tpromisor = true\n\tuploadpack = touch "+ran+"; git-upload-pack\n")
	for _, name := range []string{"info/alternates", tree[:2] + "/" + tree[2:]} {
		if err := os.Remove(filepath.Join(project, ".git/objects", name)); err != nil {
			t.Fatal(err)
		}
	}
	other := h.must("commit-tree", "-m", "the same tree", "-p", "HEAD", tree)
	_, err = h.push(other + ":refs/heads/cloister/k2")
	t.Logf("with a promisor: %v", err)
	was("a push without a tree")
	_, err = h.git("ls-remote", "--upload-pack=\"$SELF\" fetch", project)
	t.Logf("with a promisor, to fetch: %v", err)
	was("a fetch without a tree")
	// The control: git as it is asks it.
	_, err = h.git("push", "-q", project, other+":refs/heads/control")
	t.Logf("with a promisor, the control: %v", err)
	if _, err := os.Stat(ran); err != nil {
		t.Error("the control: nothing was run")
	}
}
