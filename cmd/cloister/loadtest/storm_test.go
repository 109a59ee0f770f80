//go:build linux

package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// worker writes numbered lines, a hundred a second, and has a process beside it.
const worker = `n=$(wc -l <"$0.log" 2>/dev/null || echo 0); sleep 1000 & while :; do n=$((n+1)); echo "line $n" >>"$0.log"; sleep 0.01; done`

// One of the cloisters in the storm.
type stormed struct {
	Name    string
	State   string
	PID     int
	Command int `json:"command_pid"`
	Reason  string
	Exit    *int `json:"exit_status"`
}

// storm is several agents at work, with a terminal at each.
type storm struct {
	*world
	terminals map[string]*exec.Cmd
	slowest   map[string]time.Duration
}

// TestKillStorm kills shims, guardians, agents and terminals at random while they
// work: what was killed is gone with all its processes within 5 s and shown as
// what it is, the others work on, and no line of the workspace is lost.
func TestKillStorm(t *testing.T) {
	s := &storm{world: newWorld(t, nil), terminals: map[string]*exec.Cmd{}, slowest: map[string]time.Duration{}}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CLOISTER_STORM_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{"w1", "w2", "w3", "w4"}
	for _, name := range names {
		s.begin(name)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(filepath.Join(s.dir, "s", "cloister", "logs", "guardian.log"))
			t.Logf("seed %d\n%s\n%s%v", seed, s.do("list", "-a", "--json"), log, err)
		}
		for _, name := range names {
			s.leave(name)
		}
	})
	before := map[string][]byte{}
	counts := map[string]int{}
	for round := range number(8, 100) {
		victim := []string{"shim", "guardian", "agent", "terminal"}[round%4]
		name := names[random.IntN(len(names))]
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond) //nolint:forbidigo // the point in time is the case
		for _, n := range names {
			before[n] = s.log(n)
		}
		took := s.strike(victim, name)
		counts[victim]++
		s.slowest[victim] = max(s.slowest[victim], took)
		for _, n := range names {
			s.whole(n, before[n])
		}
		s.works(names)
		if t.Failed() {
			t.Fatalf("round %d, seed %d: %s of %s", round, seed, victim, name)
		}
	}
	s.verified()
	t.Logf("storm, seed %d: %v killed; slowest until all of it was gone and shown: %v", seed, counts, s.slowest)
}

// begin starts one cloister and a terminal at it.
func (s *storm) begin(name string) {
	s.t.Helper()
	s.do("start", "-d", "--name", name, "--agent", "sh", "--", "-c", worker, name)
	s.attach(name)
}

// attach looks at a cloister from a terminal of its own.
func (s *storm) attach(name string) {
	s.t.Helper()
	cmd := s.command("attach", name)
	cmd.SysProcAttr = nil // the terminal makes it the leader of a session
	master, err := pty.Start(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, master) // until the terminal is gone
		_ = master.Close()
	}()
	s.terminals[name] = cmd
}

// leave ends the terminal at a cloister.
func (s *storm) leave(name string) {
	_ = s.terminals[name].Process.Kill()
	_ = s.terminals[name].Wait()
}

// find is what the list shows of the newest cloister of a name.
func (s *storm) find(name string) stormed {
	s.t.Helper()
	var list []stormed
	if err := json.Unmarshal(s.do("list", "-a", "--json"), &list); err != nil {
		s.t.Fatal(err)
	}
	var found stormed
	for _, one := range list {
		if one.Name == name {
			found = one
		}
	}
	return found
}

// strike kills, and returns when all that must follow has.
func (s *storm) strike(victim, name string) time.Duration {
	s.t.Helper()
	was := s.find(name)
	began := time.Now()
	switch victim {
	case "guardian":
		s.killGuardian()
		s.do("guardian", "start")
	case "terminal":
		s.leave(name)
		s.attach(name)
	case "agent":
		s.end(was, was.Command, "stopped")
	case "shim":
		s.end(was, was.PID, "failed")
	}
	return time.Since(began)
}

// goneWithin is 5 s on a machine that does nothing else.
func goneWithin() time.Duration {
	if full {
		return 5 * time.Second
	}
	return 30 * time.Second
}

// end kills the shim, or the command below the first process, and begins again.
func (s *storm) end(was stormed, pid int, want string) {
	s.t.Helper()
	all := below(was.PID)
	if want == "stopped" {
		children := childrenOf(pid)
		if len(children) == 0 {
			s.t.Fatalf("%s has no command", was.Name)
		}
		pid = children[0]
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	deadline := time.Now().Add(goneWithin())
	for _, p := range all {
		for p.lives() {
			if time.Now().After(deadline) {
				s.t.Fatalf("%d of %s lives long after its end: %s", p.pid, was.Name, p.describe())
			}
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // no event tells of another's process
		}
	}
	eventually(s.t, goneWithin(), was.Name+" is shown as "+want, func() bool {
		now := s.find(was.Name)
		return now.State == want && (want == "stopped" || now.Reason != "")
	})
	_ = s.terminals[was.Name].Wait() // it was told the end
	s.begin(was.Name)
}

// works waits until every cloister is shown as running and writes.
func (s *storm) works(names []string) {
	s.t.Helper()
	for _, name := range names {
		eventually(s.t, 30*time.Second, name+" is shown as running", func() bool {
			now := s.find(name)
			return now.State == "running" && alive(now.PID)
		})
		size := len(s.log(name))
		eventually(s.t, 30*time.Second, name+" works", func() bool { return len(s.log(name)) > size })
	}
}

func (s *storm) log(name string) []byte {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.project, name+".log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return text
}

// whole holds a workspace file to what was there, and to its numbers.
func (s *storm) whole(name string, before []byte) {
	s.t.Helper()
	now := s.log(name)
	if !bytes.HasPrefix(now, before) {
		s.t.Errorf("%s.log lost what it had", name)
	}
	n := 0
	for line := range strings.Lines(string(now)) {
		if !strings.HasSuffix(line, "\n") {
			return // half of what is being written, across the border of a page
		}
		if n++; line != fmt.Sprintf("line %d\n", n) {
			s.t.Errorf("%s.log: line %d is %q", name, n, line)
			return
		}
	}
}

// process is one that has a number and a time at which it began.
type process struct {
	pid   int
	began string
}

// lives tells whether it is there and no zombie.
func (p process) lives() bool {
	f := statOf(p.pid)
	return f != nil && f[19] == p.began && f[0] != "Z" && f[0] != "X"
}

// describe is for whoever looks for the reason.
func (p process) describe() string {
	var out []string
	for _, file := range []string{"status", "wchan", "stack", "syscall"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, file))
		out = append(out, fmt.Sprintf("%s: %s %v", file, text, err))
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
	for _, l := range links {
		to, _ := os.Readlink(l)
		out = append(out, filepath.Base(l)+" -> "+to)
	}
	return strings.Join(out, "\n")
}

// statOf are the fields of proc_pid_stat(5) from the state on.
func statOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return nil
	}
	return fields
}

func childrenOf(pid int) []int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var out []int
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for word := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// below is a process and all that descend from it.
func below(pid int) []process {
	f := statOf(pid)
	if f == nil {
		return nil
	}
	out := []process{{pid, f[19]}}
	for _, child := range childrenOf(pid) {
		out = append(out, below(child)...)
	}
	return out
}
