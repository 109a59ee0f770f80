package lifecycle_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloister/devcontainer/lifecycle"
)

// shell runs a script as the inside would.
func shell(t *testing.T, home string, p lifecycle.Plan, argv ...string) (stdout, stderr string, status int) {
	t.Helper()
	words := lifecycle.Script(p, argv)
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.Dir = &out, &errs, home
	c.Stdin = strings.NewReader("typed\n")
	c.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	err := c.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		status = ended.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), status
}

func TestOrder(t *testing.T) {
	home := t.TempDir()
	p := lifecycle.Plan{Folder: home, Once: "one", Volumes: []string{"v"}, Config: map[string]any{
		"onCreateCommands":      []any{"echo create >>log; cat"},
		"updateContentCommands": []any{[]any{"sh", "-c", "echo update $0 >>log", "it's"}},
		"postCreateCommands":    []any{map[string]any{"a": "sleep 0.2; echo a >>log", "b": []any{"sh", "-c", "echo b >>log"}}},
		"postStartCommands":     []any{"echo feature start >>log", "echo start >>log"},
		"postAttachCommands":    []any{"echo attach >>log; echo noise"},
	}}
	for range 2 {
		stdout, stderr, status := shell(t, home, p, "sh", "-c", "cat; echo command >>log; exit 3")
		if stdout != "typed\n" || status != 3 || strings.TrimSpace(stderr) != "noise" {
			t.Fatalf("%q %q %d", stdout, stderr, status)
		}
	}
	text, err := os.ReadFile(filepath.Join(home, "log"))
	want := "create\nupdate it's\nb\na\nfeature start\nstart\nattach\ncommand\nfeature start\nstart\nattach\ncommand\n"
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s", err, text)
	}
	if fi, err := os.Stat(filepath.Join(home, lifecycle.VolumesDir, "v")); err != nil || !fi.IsDir() {
		t.Error("no volume")
	}
}

func TestFailureEndsTheStart(t *testing.T) {
	for _, c := range []struct {
		command any
		says    string
	}{
		{"exit 7", "cloister: postCreateCommand of the devcontainer failed with exit status 7\n"},
		{map[string]any{"good": "true", "bad": "exit 9"}, "cloister: postCreateCommand bad of the devcontainer failed with exit status 9\n"},
		{[]any{"no-such-program"}, "failed with exit status 127\n"},
		{"kill -9 $$", "failed with exit status 137\n"},
	} {
		home := t.TempDir()
		p := lifecycle.Plan{Once: "x", Config: map[string]any{"postCreateCommands": []any{c.command}, "postStartCommands": []any{"echo later"}}}
		for range 2 { // it is not taken for done
			stdout, stderr, status := shell(t, home, p, "echo", "ran")
			if stdout != "" || status != lifecycle.Failed || !strings.HasSuffix(stderr, c.says) || strings.Contains(stderr, "later") {
				t.Errorf("%v: %q %q %d", c.command, stdout, stderr, status)
			}
		}
	}
}

// TestInitializeIsAsked runs it by the program that asks, and nothing else.
func TestInitializeIsAsked(t *testing.T) {
	home := t.TempDir()
	p := lifecycle.Plan{Config: map[string]any{"initializeCommand": "touch " + home + "/ran"}}
	if _, stderr, status := shell(t, home, p, "true"); status != 0 || !strings.Contains(stderr, "was not run on the host") {
		t.Errorf("without hostexec: %d %s", status, stderr)
	}
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin+"/hostexec", []byte("#!/bin/sh\nprintf '%s|' \"$@\" >"+home+"/asked\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_, stderr, status := shell(t, home, p, "true")
	if status != 0 || !strings.Contains(stderr, "was not run on the host") {
		t.Errorf("%d %s", status, stderr)
	}
	if asked, err := os.ReadFile(home + "/asked"); err != nil || string(asked) != "/bin/sh|-c|touch "+home+"/ran|" {
		t.Errorf("asked %q, %v", asked, err)
	}
	if _, err := os.Stat(home + "/ran"); err == nil {
		t.Error("it ran")
	}
}
