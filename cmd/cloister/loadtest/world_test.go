//go:build linux

package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/audit"
	"cloister/internal/needs"
)

// binary is the cloister under load.
var binary string

// full asks for the numbers of the design instead of the short form.
var full = os.Getenv("CLOISTER_LOAD") == "full"

// number is how often something is done.
func number(short, long int) int {
	if full {
		return long
	}
	return short
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == clientWord {
		os.Exit(client())
	}
	if len(os.Args) > 2 && os.Args[1] == serverWord {
		os.Exit(server(os.Args[2]))
	}
	os.Exit(needs.Cloister(m, &binary))
}

// A world is an instance of its own. up.example is a server of the test.
type world struct {
	t       *testing.T
	dir     string
	project string
	env     []string
	as      *syscall.Credential // who starts it; nil: who tests
	images  string              // a store of images for containers, or ""
}

func newWorld(t *testing.T, upstream net.Addr) *world { return new(world).open(t, upstream) }

// open makes its folders, and starts its guardian.
func (w *world) open(t *testing.T, upstream net.Addr) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "ld")
	if err != nil {
		t.Fatal(err)
	}
	w.t, w.dir, w.project = t, dir, filepath.Join(dir, "home", "project")
	for _, d := range []string{"home/project/.git/refs", "home/project/.git/objects", "run", "c/cloister", "s", "d", "t"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.project, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env,
		"HOME="+dir+"/home", "PATH=/usr/local/bin:/usr/bin:/bin:"+os.Getenv("CLOISTER_GVISOR"), "LANG=C.UTF-8", "TMPDIR="+dir+"/t",
		"XDG_CONFIG_HOME="+dir+"/c", "XDG_STATE_HOME="+dir+"/s", "XDG_DATA_HOME="+dir+"/d", "XDG_RUNTIME_DIR="+dir+"/run")
	to := "127.0.0.1:9"
	if upstream != nil {
		to = upstream.String()
	}
	w.configure(fmt.Sprintf("version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  hosts: {up.example: %q, toggle.example: %[1]q, ask0.example: %[1]q, ask1.example: %[1]q, ask2.example: %[1]q, ask3.example: %[1]q, ask4.example: %[1]q}\n  allow: [{domain: up.example}, {domain: \"*.unreachable.invalid\"}]\n  ask: [{domain: ask0.example}, {domain: ask1.example}, {domain: ask2.example}, {domain: ask3.example}, {domain: ask4.example}]\n", to))
	t.Cleanup(func() {
		w.do("stop", "--all", "-t", "1s")
		w.do("guardian", "stop")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := w.give(); err != nil {
		t.Fatal(err)
	}
	w.do("guardian", "start")
	return w
}

// give has the world be of who starts it, with a program that they can read.
func (w *world) give() error {
	if w.images != "" {
		data := filepath.Join(w.dir, "d", "cloister")
		if err := errors.Join(os.Mkdir(data, 0o700), os.Symlink(w.images, filepath.Join(data, "images"))); err != nil {
			return err
		}
	}
	if w.as == nil {
		return nil
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.dir, "cloister"), text, 0o755); err != nil { // it is executed
		return err
	}
	return filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(w.as.Uid), int(w.as.Gid)))
	})
}

func (w *world) configure(text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "c", "cloister", "config.yaml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// command is cloister with words, as its own process group.
func (w *world) command(words ...string) *exec.Cmd {
	program := binary
	if w.as != nil {
		program = filepath.Join(w.dir, "cloister")
	}
	cmd := exec.CommandContext(context.Background(), program, words...)
	cmd.Dir, cmd.Env = w.project, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: w.as}
	return cmd
}

// do runs cloister, which must succeed, and gives what it printed.
func (w *world) do(words ...string) []byte {
	w.t.Helper()
	cmd := w.command(words...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.t.Errorf("cloister %s: %v: %s", strings.Join(words, " "), err, errs.Bytes())
	}
	return out
}

// guardian is its process id.
func (w *world) guardian() int {
	w.t.Helper()
	var status struct{ PID int }
	if err := json.Unmarshal(w.do("guardian", "status", "--json"), &status); err != nil || status.PID == 0 {
		w.t.Fatalf("no guardian: %v", err)
	}
	return status.PID
}

// killGuardian ends it without a word, and returns when it is gone.
func (w *world) killGuardian() {
	w.t.Helper()
	pid := w.guardian()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, 20*time.Second, "the guardian dies", func() bool { return !alive(pid) })
}

// alive also counts a process whose threads are still on their way out: until
// the last is gone its sockets answer.
func alive(pid int) bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || len(tasks) > 1 {
		return err == nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.HasPrefix(text[bytes.LastIndexByte(text, ')')+1:], []byte(" Z"))
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// traces is everything on the machine that belongs to the world, by kind.
type traces map[string][]string

// look gathers traces. The guardian and what is below it are not counted.
func (w *world) look() traces {
	w.t.Helper()
	out := traces{}
	namespaces := map[string]bool{}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range processes {
		if !w.owns(p) {
			continue
		}
		line, _ := os.ReadFile(p + "/cmdline")
		words := strings.ReplaceAll(string(line), "\x00", " ")
		if strings.Contains(words, "guardian") {
			continue
		}
		out["process"] = append(out["process"], filepath.Base(p)+" "+words)
		for _, kind := range []string{"net", "mnt", "user", "pid"} {
			if id, err := os.Readlink(p + "/ns/" + kind); err == nil && !namespaces[id] && id != own(kind) {
				namespaces[id] = true
				out["namespace"] = append(out["namespace"], id)
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, w.dir) {
			out["mount"] = append(out["mount"], strings.TrimSpace(line))
		}
	}
	for _, dir := range []string{w.project, filepath.Join(w.dir, "run"), filepath.Join(w.dir, "t")} {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			// The folder of terminals' sockets stays, as the guardian's does.
			if err == nil && !strings.HasPrefix(path, filepath.Join(w.project, ".git")) && filepath.Base(path) != "client" && path != filepath.Join(w.dir, "run", "cloister", "t") {
				out["file"] = append(out["file"], path)
			}
			return nil
		})
	}
	for _, id := range w.ids() {
		found, err := filepath.Glob("/sys/fs/cgroup/*/*" + id + "*")
		if err == nil {
			out["cgroup"] = append(out["cgroup"], found...)
		}
	}
	return out
}

func own(kind string) string {
	id, _ := os.Readlink("/proc/self/ns/" + kind)
	return id
}

// owns tells a process of the world: by its environment, as root's eye or the
// same user's sees it, or by its words.
func (w *world) owns(proc string) bool {
	for _, file := range []string{"/environ", "/cmdline"} {
		if text, err := os.ReadFile(proc + file); err == nil && bytes.Contains(text, []byte(w.dir)) {
			return true
		}
	}
	return false
}

// ids are the sessions that the record knows.
func (w *world) ids() []string {
	var out []string
	for e, err := range audit.Read(filepath.Join(w.dir, "s", "cloister", "audit"), audit.Filter{Kind: audit.SessionStart}) {
		if err == nil && !slices.Contains(out, e.SessionID) {
			out = append(out, e.SessionID)
		}
	}
	return out
}

// same fails for what is there now and was not before.
func (w *world) same(before, after traces) {
	w.t.Helper()
	for kind, now := range after {
		for _, one := range now {
			if !slices.Contains(before[kind], one) {
				w.t.Errorf("left behind: %s %s", kind, one)
				if kind == "process" {
					w.t.Log(doing(strings.Fields(one)[0]))
				}
			}
		}
	}
}

// doing tells why a process may still be there: its state, where it waits and
// what it has open.
func doing(pid string) string {
	var out []string
	for _, name := range []string{"status", "wchan", "syscall", "stack"} {
		text, err := os.ReadFile("/proc/" + pid + "/" + name)
		out = append(out, fmt.Sprintf("%s: %s %v", name, text, err))
	}
	files, err := filepath.Glob("/proc/" + pid + "/fd/*")
	for _, f := range files {
		to, err := os.Readlink(f)
		out = append(out, fmt.Sprint(f, " -> ", to, err))
	}
	return fmt.Sprint(strings.Join(out, "\n"), err)
}

// settled waits until nothing of the sessions is there, and tells what is after
// longer than even a busy machine needs.
func (w *world) settled(before traces) time.Duration {
	w.t.Helper()
	began := time.Now()
	for {
		after := w.look()
		extra := 0
		for kind, now := range after {
			for _, one := range now {
				if !slices.Contains(before[kind], one) {
					extra++
				}
			}
		}
		if extra == 0 || time.Since(began) > 20*time.Second {
			w.same(before, after)
			return time.Since(began)
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // nothing else tells that all is gone
	}
}

// weight is what a process holds.
type weight struct {
	descriptors, threads int
	kib                  int // resident
}

func (w *world) weigh(pid int) weight {
	w.t.Helper()
	var out weight
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil && !errors.Is(err, os.ErrPermission) { // a guardian cannot be looked into by its own user
		w.t.Fatal(err)
	}
	out.descriptors = len(list)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch key {
		case "Threads":
			out.threads = n
		case "VmRSS":
			out.kib = n
		}
	}
	return out
}

// verified fails unless the record is whole.
func (w *world) verified() audit.Report {
	w.t.Helper()
	r, err := audit.Verify(filepath.Join(w.dir, "s", "cloister", "audit"))
	if err != nil {
		w.t.Error(err)
	}
	return r
}

func quantile(list []time.Duration, q float64) time.Duration {
	slices.Sort(list)
	return list[min(len(list)-1, int(q*float64(len(list))))]
}
