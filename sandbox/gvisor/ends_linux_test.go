package gvisor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/onhost"
	"cloister/sandbox/sandboxtest"
)

// parts are the processes of a box on the host, each by a word of its command line.
var parts = map[string]string{
	"the program":             "\x00box\x00",
	"the gofer":               "\x00gofer\x00",
	"the sandbox":             "\x00boot\x00",
	"the box's first":         "",
	"a program in the inside": "",
}

// TestEnds: whatever process of a box is killed, the command ends as one that was killed, nothing of the
// box is left, and the next one starts.
func TestEnds(t *testing.T) {
	h := sandboxtest.New(t, built(t)())
	for name, word := range parts {
		t.Run(name, func(t *testing.T) {
			var all []int
			argv := []string{"sh", "-c", "touch runs; sleep 600; touch late"}
			if name == "a program in the inside" {
				argv[2] = "touch runs; while [ ! -e go ]; do sleep 0.05; done; kill -9 1; sleep 600; touch late"
			}
			out := h.Run(t, sandboxtest.Options{During: func(b sandbox.Box) {
				first := running(t, h, b)
				all = descent(first)
				if name == "a program in the inside" {
					h.Write(t, "go", "")
					return
				}
				killed := 0
				for _, pid := range all {
					text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
					if word == "" && pid == first || word != "" && bytes.Contains(text, []byte(word)) {
						killed++
						_ = unix.Kill(pid, unix.SIGKILL)
					}
				}
				if killed == 0 {
					t.Errorf("%s is none of %s", name, described(all))
					_ = b.Close()
				}
			}}, argv...)
			endedWhole(t, h, out, all)
		})
	}
}

// TestEndsOutOfMemory: a box that reaches its limit of memory ends whole.
func TestEndsOutOfMemory(t *testing.T) {
	h := sandboxtest.New(t, built(t)())
	if os.Geteuid() != 0 {
		if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
			t.Skip("an ordinary user can make no control groups of version 1")
		}
	}
	var all []int
	out := h.Run(t, sandboxtest.Options{
		Change: func(s *sandbox.Spec) { s.Limits.Memory = 160 << 20 },
		During: func(b sandbox.Box) {
			all = descent(running(t, h, b))
			h.Write(t, "go", "")
		},
	}, "sh", "-c", "touch runs; while [ ! -e go ]; do sleep 0.05; done; tail /dev/zero; touch late")
	endedWhole(t, h, out, all)
}

// running waits until the command runs, and gives the box's first process.
func running(t *testing.T, h *sandboxtest.Harness, b sandbox.Box) int {
	t.Helper()
	first, err := onhost.Process(b.Handle())
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the command runs", func() bool {
		_, err := os.Stat(filepath.Join(h.Project, "runs"))
		return err == nil
	})
	return first
}

// endedWhole wants a killed command, nothing left of its box, and another that works.
func endedWhole(t *testing.T, h *sandboxtest.Harness, out sandboxtest.Out, all []int) {
	t.Helper()
	if out.Status.ExitCode() != 128+int(unix.SIGKILL) {
		t.Errorf("the command ended so: %+v", out)
	}
	if len(all) < 4 {
		t.Errorf("control: the box had the processes %v alone", all)
	}
	within(t, "nothing of the box is left", func() bool {
		for _, pid := range all {
			if unix.Kill(pid, 0) == nil {
				return false
			}
		}
		return true
	})
	for _, name := range []string{"runs", "go"} {
		_ = os.Remove(filepath.Join(h.Project, name))
	}
	if _, err := os.Stat(filepath.Join(h.Project, "late")); err == nil {
		t.Error("the command went on")
	}
	if again := h.Run(t, sandboxtest.Options{}, "echo", "again"); again.Stdout != "again\n" {
		t.Errorf("the next box: %+v", again)
	}
}

// within waits for what other processes do.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// descent is a process and all that descend from it.
func descent(pid int) []int {
	out := []int{pid}
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				out = append(out, descent(child)...)
			}
		}
	}
	return out
}

func described(all []int) string {
	var out []string
	for _, pid := range all {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		out = append(out, strconv.Itoa(pid)+" "+string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
	}
	return strings.Join(out, "\n")
}
