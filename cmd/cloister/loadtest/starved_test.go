//go:build linux

package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/audit"
	"cloister/internal/cgroup"
	"cloister/internal/needs"
)

// plenty is the memory of a machine in these tests: a control group around guardian, shims and payloads.
const plenty = 256 << 20

// The payloads, each from the word go on.
const (
	oneLarge = "echo ready; read go; exec tail /dev/zero"
	// Each has 3 MB, a tenth of what a guardian or a shim has.
	manySmall = `echo ready; read go; while :; do (x=$(head -c 3000000 /dev/zero | tr '\0' x); exec sleep 600) & done`
)

// levels are where a machine without memory is tried, each with its flags and who starts it.
func levels(t *testing.T) map[string]struct {
	flags []string
	as    string
	miss  string // what is not there to try it
} {
	t.Helper()
	unset := func(keys ...string) string {
		for _, key := range keys {
			if os.Getenv(key) == "" {
				return key + " is not set: script/test stories does"
			}
		}
		return ""
	}
	return map[string]struct {
		flags []string
		as    string
		miss  string
	}{
		"native":           {[]string{"--isolation", "native"}, "", ""},
		"native as a user": {[]string{"--isolation", "native"}, "nobody", ""},
		"user":             {[]string{"--isolation", "user"}, os.Getenv("CLOISTER_LOCAL_USER"), unset("CLOISTER_LOCAL_USER")},
		"gvisor":           {[]string{"--isolation", "gvisor"}, "", unset("CLOISTER_GVISOR")},
		"docker": {[]string{"--isolation", "docker", "--image", "cloister-base"}, "",
			unset("CLOISTER_TEST_ENGINE", "CLOISTER_TEST_IMAGES")},
	}
}

// TestOutOfMemory: where a payload takes all memory of a machine, the kernel ends the payload, and not the guardian;
// where it ends the guardian all the same, nothing leaves until there is another.
func TestOutOfMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Missing(t, "root", errors.New("a control group around all of Cloister is root's"))
	}
	for name, level := range levels(t) {
		t.Run(name, func(t *testing.T) {
			if level.miss != "" {
				t.Skip(level.miss)
			}
			up := newUpstream(t)
			w := newWorldOf(t, up.Listener.Addr(), level.as)
			s := &starving{world: w, up: up, flags: level.flags, other: w.inside(level.flags...)}
			s.served("before")
			s.before = w.look()
			s.try("one program takes it all", s.oneLarge)
			s.try("the guardian is ended", s.guardianEnded)
			if name != "gvisor" { // there one process has the memory of all
				s.try("many small programs take it", s.manySmall)
				s.try("many small programs without a score", s.unscored)
			}
		})
	}
}

// starving is a level on a machine without memory.
type starving struct {
	*world
	up     *upstream
	flags  []string
	other  *inside // a cloister beside the one that takes the memory
	before traces
}

// try runs a test of it, which fails by itself.
func (s *starving) try(name string, test func(t *testing.T)) {
	whole := s.t
	whole.Run(name, func(t *testing.T) {
		s.t, s.other.t = t, t
		test(t)
	})
	s.t, s.other.t = whole, whole
}

// served wants a request of the other cloister to arrive.
func (s *starving) served(when string) {
	s.t.Helper()
	eventually(s.t, time.Minute, "the other cloister is served "+when, func() bool {
		return s.other.do(order{Do: "get", URL: "http://up.example/" + strings.ReplaceAll(when, " ", "-"), Number: 1,
			Within: 2 * time.Second}).Good == 1
	})
}

// eater is a cloister whose payload waits for the word.
type eater struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *bytes.Buffer
	held *held
}

// eater starts one, and brings all of Cloister but the other cloister into a group with little memory.
func (s *starving) eater(t *testing.T, script string) *eater {
	t.Helper()
	cmd := s.command(slices.Concat([]string{"run"}, s.flags, []string{"--", "sh", "-c", script})...)
	e := &eater{cmd: cmd, said: &bytes.Buffer{}}
	cmd.Stderr = e.said
	in, bad := cmd.StdinPipe()
	out, err := cmd.StdoutPipe()
	if err := errors.Join(bad, err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	e.in = in
	t.Cleanup(func() { _ = in.Close(); _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	if line := make([]byte, len("ready\n")); must(io.ReadFull(out, line)) != nil {
		_ = cmd.Wait()
		t.Fatalf("the payload does not begin: %s", e.said)
	}
	e.held = s.small(t)
	for _, pid := range s.moved() {
		if err := e.held.Add(pid); err != nil && alive(pid) {
			t.Fatal(err)
		}
	}
	return e
}

func must(_ int, err error) error { return err }

func (e *eater) begin() { _, _ = io.WriteString(e.in, "go\n") }

// ended waits for its end, and gives its status.
func (e *eater) ended(t *testing.T) int {
	t.Helper()
	over := make(chan error, 1)
	go func() { over <- e.cmd.Wait() }()
	select {
	case <-over:
	case <-time.After(2 * time.Minute):
		t.Fatal("what takes all memory goes on")
	}
	return e.cmd.ProcessState.ExitCode()
}

// oneLarge: the program ends, the record says why, and all else goes on.
func (s *starving) oneLarge(t *testing.T) {
	pid := s.guardian()
	e := s.eater(t, oneLarge)
	if own, payload := score(pid), s.highest(); payload < own+100 {
		t.Errorf("the payload's score is %d, the guardian's %d", payload, own)
	}
	e.begin()
	if status := e.ended(t); status != 137 || !strings.Contains(e.said.String(), "no memory left") {
		t.Errorf("status %d: %s", status, e.said)
	}
	if e.held.kills() == 0 {
		t.Error("control: the kernel ended nothing for want of memory")
	}
	if now := s.guardian(); now != pid {
		t.Errorf("the guardian %d has ended, now it is %d", pid, now)
	}
	s.served("while memory is short")
	s.recorded(t)
	s.do(slices.Concat([]string{"run"}, s.flags, []string{"--", "true"})...)
	s.settled(s.before)
}

// recorded wants the record to say why a cloister ended.
func (s *starving) recorded(t *testing.T) {
	t.Helper()
	for e, err := range audit.Read(filepath.Join(s.dir, "s", "cloister", "audit"), audit.Filter{}) {
		if err == nil && strings.Contains(e.Reason, "no memory left") {
			return
		}
	}
	t.Error("the record does not say that there was no memory left")
}

// manySmall: it is always one of them, though the guardian is larger than each.
func (s *starving) manySmall(t *testing.T) {
	pid := s.guardian()
	e := s.eater(t, manySmall)
	e.begin()
	eventually(t, 2*time.Minute, "twenty programs are ended", func() bool { return e.held.kills() >= 20 })
	if now := s.guardian(); now != pid || !alive(e.cmd.Process.Pid) {
		t.Errorf("the guardian %d is %d now, the shim lives: %t: %s", pid, now, alive(e.cmd.Process.Pid), e.said)
	}
	s.served("beside them")
	s.finish(t, e)
}

// finish ends a payload that goes on.
func (s *starving) finish(t *testing.T, e *eater) {
	t.Helper()
	_ = syscall.Kill(e.cmd.Process.Pid, syscall.SIGKILL)
	e.ended(t)
	s.settled(s.before)
}

// guardianEnded: where the kernel takes the guardian nothing leaves, and the next one takes over.
func (s *starving) guardianEnded(t *testing.T) {
	pid := s.guardian()
	e := s.eater(t, oneLarge)
	s.rescore(t, score(pid))
	e.held.ballast(t)
	if err := cgroup.Set(fmt.Sprintf("/proc/%d/oom_score_adj", pid), "1000"); err != nil {
		t.Fatal(err)
	}
	e.begin()
	eventually(t, time.Minute, "the guardian is ended", func() bool { return !alive(pid) })
	if e.held.kills() == 0 {
		t.Error("control: the kernel ended nothing for want of memory")
	}
	outage := s.up.drained(t)
	if a := s.other.do(order{Do: "get", URL: "http://up.example/outage", Number: 3, Within: 5 * time.Second}); a.Good != 0 ||
		s.up.count.Load() != outage {
		t.Errorf("%d requests left without a guardian: %+v", s.up.count.Load()-outage, a)
	}
	if status := e.ended(t); status != 137 {
		t.Errorf("status %d: %s", status, e.said)
	}
	s.do("guardian", "start")
	s.served("by the next guardian")
	s.alone(t)
	s.do(slices.Concat([]string{"run"}, s.flags, []string{"--", "true"})...)
	s.settled(s.before)
	s.verified()
}

// unscored is the control of manySmall: with the payload's score taken away the kernel ends one of ours.
func (s *starving) unscored(t *testing.T) {
	pid := s.guardian()
	e := s.eater(t, manySmall)
	s.rescore(t, score(pid))
	ours := []int{pid, e.cmd.Process.Pid}
	e.begin()
	eventually(t, 2*time.Minute, "one of ours is ended", func() bool {
		return slices.ContainsFunc(ours, func(p int) bool { return !alive(p) })
	})
	_ = syscall.Kill(e.cmd.Process.Pid, syscall.SIGKILL)
	e.ended(t)
	s.do("guardian", "start")
	s.alone(t)
}

// alone waits until a guardian has given up the cloisters whose end no guardian was there to see.
func (s *starving) alone(t *testing.T) {
	eventually(t, time.Minute, "only the other cloister is left", func() bool {
		var list []struct{ Name string }
		return json.Unmarshal(s.do("list", "--json"), &list) == nil && len(list) == 1
	})
}

// rescore gives a score to all of the world but the other cloister.
func (s *starving) rescore(t *testing.T, to int) {
	for _, pid := range s.moved() {
		if err := cgroup.Set(fmt.Sprintf("/proc/%d/oom_score_adj", pid), strconv.Itoa(to)); err != nil && alive(pid) {
			t.Fatal(err)
		}
	}
}

// moved is all that gets little memory: the other cloister is there to be asked.
func (s *starving) moved() []int {
	beside := below(s.other.cmd.Process.Pid)
	return slices.DeleteFunc(s.everything(), func(pid int) bool {
		return slices.ContainsFunc(beside, func(p process) bool { return p.pid == pid })
	})
}

// score is a process's oom_score_adj; the lowest there is where it is gone.
func score(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	n, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil {
		return -1000
	}
	return n
}

// highest is the highest score of all that is the world's.
func (w *world) highest() int {
	most := -1000
	for _, pid := range w.everything() {
		most = max(most, score(pid))
	}
	return most
}

// everything is each process of the world: guardian, shims, what descends from them, and what sees its project.
func (w *world) everything() []int {
	found := map[int]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		mounts, _ := os.ReadFile(p + "/mountinfo")
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && pid != os.Getpid() &&
			(w.owns(p) || bytes.Contains(mounts, []byte(w.dir))) {
			for _, one := range below(pid) {
				found[one.pid] = true
			}
		}
	}
	var out []int
	for pid := range found {
		out = append(out, pid)
	}
	return out
}

// held is a group with little memory.
type held struct {
	*cgroup.Group
	name string
}

// small makes one, in which the kernel ends one process at a time.
func (w *world) small(t *testing.T) *held {
	t.Helper()
	name := fmt.Sprintf("cloister-starved-%d-%d", os.Getpid(), time.Now().UnixNano())
	g, err := cgroup.New(name, cgroup.Bounds{Memory: plenty})
	if err != nil {
		needs.Missing(t, "root", err)
	}
	t.Cleanup(func() {
		// What goes on does so where this program is.
		for _, pid := range w.everything() {
			_ = cgroup.Set(filepath.Join(cgroup.Root, "memory", "cgroup.procs"), strconv.Itoa(pid))
			_ = cgroup.Set(filepath.Join(cgroup.Root, "cgroup.procs"), strconv.Itoa(pid))
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if dir := g.Version2(); dir != "" && cgroup.Unified() {
		if err := cgroup.Set(filepath.Join(dir, "memory.oom.group"), "0"); err != nil {
			t.Fatal(err)
		}
	}
	return &held{g, name}
}

// ballast takes a quarter of its memory, so that a payload cannot have more of it than the guardian's score says.
func (h *held) ballast(t *testing.T) {
	t.Helper()
	const size = plenty / 4
	cmd := exec.CommandContext(t.Context(), "tail", "-c", strconv.Itoa(size))
	in, err := cmd.StdinPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	err = h.Add(cmd.Process.Pid)
	if _, bad := io.CopyN(in, zeros{}, size); errors.Join(err, bad) != nil {
		t.Fatal(err, bad)
	}
}

// kills is how many processes the kernel has ended in it.
func (h *held) kills() int {
	file := filepath.Join(cgroup.Root, "memory", h.name, "memory.oom_control")
	if dir := h.Version2(); dir != "" && cgroup.Unified() {
		file = filepath.Join(dir, "memory.events")
	}
	text, _ := os.ReadFile(file)
	_, after, _ := strings.Cut(string(text), "oom_kill ")
	line, _, _ := strings.Cut(after, "\n")
	n, _ := strconv.Atoi(line)
	return n
}

// newWorldOf is newWorld for another account, with what the levels need.
func newWorldOf(t *testing.T, upstream net.Addr, account string) *world {
	t.Helper()
	w := &world{}
	if account != "" {
		who, err := user.Lookup(account)
		if err != nil {
			t.Fatal(err)
		}
		uid, bad := strconv.Atoi(who.Uid)
		gid, err := strconv.Atoi(who.Gid)
		if err := errors.Join(bad, err); err != nil {
			t.Fatal(err)
		}
		w.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	if engine := os.Getenv("CLOISTER_TEST_ENGINE"); engine != "" {
		w.env = append(w.env, "DOCKER_HOST=unix://"+engine)
	}
	w.images = os.Getenv("CLOISTER_TEST_IMAGES")
	return w.open(t, upstream)
}
