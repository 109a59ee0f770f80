package kubernetes_test

import (
	"context"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"cloister/sandbox"
)

// shows reports whether a text has a value, as it is or in base64 of more than it.
func shows(text, value string) bool {
	if strings.Contains(text, value) {
		return true
	}
	for before := range 3 {
		coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + value))
		if strings.Contains(text, coded[(before*4+2)/3:len(coded)-4]) {
			return true
		}
	}
	return false
}

// shown names the processes of this host whose words have a value.
func shown(t *testing.T, value string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(all) == 0 {
		t.Fatal("no process is seen: ", err)
	}
	for _, name := range all {
		if text, err := os.ReadFile(name); err == nil && shows(string(text), value) { // it may have ended
			pids = append(pids, filepath.Dir(name))
		}
	}
	return pids
}

// TestUnseen: what a command is begun with, its environment first, is in no process list of this host and in no
// request to the API server, with a terminal and without one.
func TestUnseen(t *testing.T) {
	const value = "value-that-no-one-is-to-see"
	for _, coded := range []string{value, base64.StdEncoding.EncodeToString([]byte("A=" + value + "."))} {
		r, w := pipeOf(t)
		control := exec.CommandContext(t.Context(), "sh", "-c", "echo; read word", coded)
		control.Stdin = r
		out, err := control.StdoutPipe()
		if err == nil {
			err = control.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // it runs
			t.Fatal(err)
		}
		if len(shown(t, value)) == 0 {
			t.Fatalf("a process that has %q as an argument is not seen", coded)
		}
		w.Close()
		_ = control.Wait() // read has found no line
	}
	for _, terminal := range []bool{false, true} {
		world := build(t, true, running)
		in, typed := pipeOf(t)
		answer, out := pipeOf(t)
		if terminal {
			master, slave, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { master.Close(); slave.Close() })
			in, out, typed, answer = slave, slave, master, master
		}
		b, err := world.driver.Start(t.Context(), sandbox.Spec{ID: "S1", Name: "one", Dir: "/", Network: true,
			Argv: []string{"sh", "-c", `echo "the word has ${#WORD}"; read line; echo "$line, done"`},
			Env:  []string{"PATH=/usr/bin:/bin", "WORD=" + value},
			User: sandbox.User{ID: user, Name: "agent", Home: "/home/agent"}},
			sandbox.Wiring{Stdin: in, Stdout: out, Stderr: out, Arm: func(_ context.Context, g sandbox.Gate) error {
				g.Close()
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		seen := &screen{f: answer}
		seen.until(t, "the word has 27")
		if pids := shown(t, value); len(pids) > 0 {
			t.Errorf("terminal %v: the environment is among the words of %v", terminal, pids)
		}
		if _, err := io.WriteString(typed, "hello\n"); err != nil {
			t.Error(err)
		}
		seen.until(t, "hello, done")
		if st, err := b.Wait(); err != nil || st.Code != 0 {
			t.Errorf("terminal %v: %+v, %v", terminal, st, err)
		}
		log, err := os.ReadFile(filepath.Join(world.dir, "log"))
		if err != nil || !strings.Contains(string(log), "exec") || shows(string(log), value) {
			t.Errorf("terminal %v: %v, the requests were\n%s", terminal, err, log)
		}
		if strings.Contains(seen.text, "cloister-ready") || shows(seen.text, value) {
			t.Errorf("terminal %v: what is sent to begin is written: %q", terminal, seen.text)
		}
	}
}

func pipeOf(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}
