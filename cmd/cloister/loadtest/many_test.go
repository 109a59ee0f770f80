//go:build linux

package loadtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// TestMany has many sessions at once, each with a terminal: what an idle one
// weighs, how long a list and an attach take. The bars (6 MB, 50 ms, 100 ms) are
// asserted in full, on a machine that does nothing else.
func TestMany(t *testing.T) {
	w := newWorld(t, nil)
	w.do("run", "--", "true") // makes the home
	before := w.look()
	many := number(6, 50)
	turn := make(chan struct{}, 4)
	var wait sync.WaitGroup
	for i := range many {
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			w.do("start", "-d", "--name", fmt.Sprintf("s%d", i), "--agent", "sh", "--", "-c", "echo ready; exec sleep 1000")
		})
	}
	wait.Wait()
	running := strings.Count(string(w.do("list", "--json")), `"state": "running"`)
	if running != many {
		t.Fatalf("%d of %d run", running, many)
	}
	if full {
		time.Sleep(5 * time.Second) //nolint:forbidigo // idle is what is measured
	}
	var lists, attaches []time.Duration
	for i := range number(5, 40) {
		began := time.Now()
		w.do("list")
		lists = append(lists, time.Since(began))
		attaches = append(attaches, w.seen(fmt.Sprintf("s%d", i%many), "ready"))
	}
	each, told := w.idle()
	ms := func(list []time.Duration, q float64) time.Duration {
		return quantile(list, q).Round(100 * time.Microsecond)
	}
	text := fmt.Sprintf("%d cloisters at once, each with a terminal\n"+
		"cloister list                              p50 %v, p99 %v (bar 50 ms)\n"+
		"cloister attach, until its screen is shown p50 %v, p99 %v (bar 100 ms)\n"+
		"an idle one weighs                         %s (bar 6 MB)\n",
		many, ms(lists, 0.5), ms(lists, 0.99), ms(attaches, 0.5), ms(attaches, 0.99), told)
	t.Log(text)
	if dir := os.Getenv("CLOISTER_CAPTURES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "many.txt"), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	if full && (quantile(lists, 0.5) > 50*time.Millisecond || quantile(attaches, 0.5) > 100*time.Millisecond || each > 6e6) {
		t.Error("a bar is missed")
	}
	w.do("stop", "--all", "-t", "1s")
	w.settled(before)
	w.verified()
}

// seen is how long a terminal waits for a text after attach was typed.
func (w *world) seen(name, text string) time.Duration {
	w.t.Helper()
	cmd := w.command("attach", name)
	cmd.SysProcAttr = nil // the terminal makes it the leader of a session
	began := time.Now()
	master, err := pty.Start(cmd)
	if err != nil {
		w.t.Fatal(err)
	}
	defer master.Close()
	if err := master.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	var all []byte
	for buf := make([]byte, 4096); len(all) == 0 || !bytes.Contains(all, []byte(text)); {
		n, err := master.Read(buf)
		if err != nil {
			w.t.Fatalf("attach %s showed %q: %v", name, all, err)
		}
		all = append(all, buf[:n]...)
	}
	took := time.Since(began)
	if _, err := master.Write([]byte{0x10, 0x11}); err != nil { // Ctrl-P Ctrl-Q
		w.t.Error(err)
	}
	for err == nil { // until the terminal is given back
		_, err = master.Read(make([]byte, 4096))
	}
	if err := cmd.Wait(); err != nil {
		w.t.Errorf("attach %s: %v", name, err)
	}
	return took
}

// idle is what an idle session weighs: the proportional set size of its
// processes without its program's, each address space once. A shim cannot be
// looked into by its own user, so only root knows.
func (w *world) idle() (each float64, told string) {
	w.t.Helper()
	var list []struct{ PID int }
	if err := json.Unmarshal(w.do("list", "--json"), &list); err != nil {
		w.t.Fatal(err)
	}
	sum := 0.0
	for _, s := range list {
		var counted []int
		for _, p := range below(s.PID) {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
			if !bytes.HasPrefix(comm, []byte("cloister")) || bytes.Contains(line, []byte("guardian")) || shares(counted, p.pid) {
				continue
			}
			counted = append(counted, p.pid)
			size, err := pss(p.pid)
			if err != nil {
				return 0, "not weighed: " + err.Error()
			}
			sum += size
		}
	}
	each = sum / float64(len(list))
	return each, fmt.Sprintf("%.2f MB", each/1e6)
}

// shares tells whether a process has the address space of another: a cloister's
// first process is a clone with its shim's.
func shares(others []int, pid int) bool {
	for _, o := range others {
		order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(o), uintptr(pid), 1 /* KCMP_VM */, 0, 0, 0)
		if errno == 0 && order == 0 {
			return true
		}
	}
	return false
}

func pss(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("smaps_rollup of %d has no Pss", pid)
}
