//go:build linux

package loadtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// RS-17: the guardian is replaced by one of another version while cloisters live,
// there and back: every session is kept, its terminal too, and no record is lost.
// The other version is the one that CLOISTER_TEST_OTHER names, or a copy of this
// one, which is another program to the kernel and in the record.
func TestUpgrade(t *testing.T) {
	w := newWorld(t, nil)
	w.do("run", "--", "true")
	before := w.look()
	other := os.Getenv("CLOISTER_TEST_OTHER")
	if other == "" {
		other = filepath.Join(w.dir, "t", "cloister")
		text, err := os.ReadFile(binary)
		if err == nil {
			err = os.WriteFile(other, text, 0o755) // it is executed
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	many := number(4, 10)
	for i := range many {
		w.do("start", "-d", "--name", fmt.Sprintf("s%d", i), "--agent", "sh", "--", "-c", worker, fmt.Sprintf("s%d", i))
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(filepath.Join(w.dir, "s", "cloister", "logs", "guardian.log"))
			t.Logf("%s\n%s%v", w.do("list", "-a", "--json"), log, err)
		}
	})
	shims := w.shims()
	records := w.verified().Records
	for round, program := range []string{other, binary, other, binary} {
		w.do("guardian", "stop")
		start := exec.CommandContext(t.Context(), program, "guardian", "start")
		start.Dir, start.Env = w.project, w.env
		if out, err := start.CombinedOutput(); err != nil {
			t.Fatalf("start the other guardian: %v: %s", err, out)
		}
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", w.guardian())); err == nil && exe != program {
			t.Errorf("round %d: the guardian is %s, not %s", round, exe, program)
		}
		took := eventually(t, 20*time.Second, "every session is back", func() bool { return len(w.shims()) == many })
		for name, pid := range w.shims() {
			if shims[name] != pid {
				t.Errorf("round %d: %s was replaced: %d, before %d", round, name, pid, shims[name])
			}
			size := len(w.file(name + ".log"))
			eventually(t, 20*time.Second, name+" works on", func() bool { return len(w.file(name+".log")) > size })
		}
		w.seen("s0", "") // its terminal is found
		now := w.verified().Records
		if now <= records {
			t.Errorf("round %d: %d records, %d before", round, now, records)
		}
		records = now
		t.Logf("RS-17 %d sessions kept over a change of the guardian's program: all back after %v, %d records verify", many, took, now)
	}
	w.do("stop", "--all", "-t", "1s")
	if other != os.Getenv("CLOISTER_TEST_OTHER") {
		_ = os.Remove(other)
	}
	for name := range shims {
		_ = os.Remove(filepath.Join(w.project, name+".log"))
	}
	w.settled(before)
}

// shims are the processes of the sessions that run, by name.
func (w *world) shims() map[string]int {
	w.t.Helper()
	var list []stormed
	if err := json.Unmarshal(w.do("list", "--json"), &list); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]int{}
	for _, s := range list {
		if s.State == "running" {
			out[s.Name] = s.PID
		}
	}
	return out
}

func (w *world) file(name string) []byte {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.project, name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return text
}
