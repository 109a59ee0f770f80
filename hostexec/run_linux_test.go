package hostexec_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/hostexec"
	"cloister/internal/needs"
)

// TestMain is the helper of the commands, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "keep" {
		if err := hostexec.Keep(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// job is one command on its way.
type job struct {
	*place
	way    hostexec.Way
	caller net.Conn
	n      string // a number that only its processes name
	res    hostexec.Result
	err    error
	ended  chan struct{}
}

// begin runs a script of the person's; $n in it is a number of its own.
func begin(t *testing.T, l hostexec.Limits, grouped bool, text string) *job {
	t.Helper()
	j := &job{place: newPlace(t), n: fmt.Sprintf("7%d%d", os.Getpid(), time.Now().UnixNano()%100000), ended: make(chan struct{})}
	j.way = hostexec.Way{Helper: []string{"/proc/self/exe", "keep"}, Limits: l}
	if exe, err := os.Executable(); err == nil {
		j.way.Helper[0] = exe
	}
	if grouped {
		g, memory, err := hostexec.NewGroup("test-cloister-hostexec-"+j.n, l)
		if err != nil {
			needs.Missing(t, "root", err)
		}
		t.Cleanup(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		j.way.Group, j.way.Limits.Memory = g, memory
	}
	j.host.Path, j.host.Env = "/usr/bin:/bin", []string{"PATH=/usr/bin:/bin", "n=" + j.n}
	p, err := j.prepare("/work", "sh", "-c", text)
	if err != nil {
		t.Fatal(err)
	}
	l1, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l1.Close()
	if j.caller, err = net.Dial("tcp", l1.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.caller.Close() })
	host, err := l1.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	conn := hostexec.NewConn(bufio.NewReader(host), host, cancel)
	go func() { _, _ = io.Copy(io.Discard, j.caller) }()
	go func() {
		defer close(j.ended)
		j.res, j.err = p.Run(ctx, j.way, conn)
		conn.Close()
		cancel()
	}()
	t.Cleanup(func() {
		cancel()
		<-j.ended
		// The shell too, which may have a sleep to start yet.
		j.eventually("the end of all", func() bool {
			left := j.named("environ", "n="+j.n)
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return len(left) == 0
		})
	})
	return j
}

// alive are the processes that sleep for the job's number.
func (j *job) alive() []int { return j.named("cmdline", "sleep\x00"+j.n) }

// named are the processes that have these words, whole, in that file of proc(5).
func (j *job) named(file, words string) []int {
	found, err := filepath.Glob("/proc/[0-9]*/" + file)
	if err != nil {
		j.t.Fatal(err)
	}
	var out []int
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains("\x00"+string(text), "\x00"+words+"\x00") {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

func (j *job) eventually(what string, is func() bool) {
	j.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			j.t.Fatalf("%s: waited for in vain; %d sleep", what, len(j.alive()))
		}
	}
}

func (j *job) wait() {
	j.t.Helper()
	select {
	case <-j.ended:
	case <-time.After(3 * time.Minute):
		j.t.Fatal("it does not end")
	}
}

// Sleeps that left their parents, sessions and groups of processes, beside one
// that stands still.
const scattered = `setsid sh -c "sleep $n & (sleep $n &) " & sleep $n & sleep 0.3; kill -STOP $!; sleep $n & `

// both runs a test with a control group and without.
func both(t *testing.T, test func(t *testing.T, grouped bool)) {
	t.Helper()
	for _, grouped := range []bool{true, false} {
		name := "process group"
		if grouped {
			name = "control group"
		}
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, grouped) })
	}
}

func TestDeadlineEndsAll(t *testing.T) {
	both(t, func(t *testing.T, grouped bool) {
		j := begin(t, hostexec.Limits{Time: 6 * time.Second}, grouped, scattered+"wait")
		j.eventually("four sleeps", func() bool { return len(j.alive()) == 4 })
		j.wait()
		if j.err != nil || !strings.Contains(j.res.Ended, "it ran for 6s") {
			t.Errorf("%+v, %v", j.res, j.err)
		}
		if n := j.alive(); len(n) > 0 {
			t.Errorf("they live on: %v", n)
		}
	})
}

func TestCallersDeathEndsAll(t *testing.T) {
	both(t, func(t *testing.T, grouped bool) {
		j := begin(t, hostexec.Limits{}, grouped, scattered+"wait")
		j.eventually("four sleeps", func() bool { return len(j.alive()) == 4 })
		j.caller.Close()
		j.wait()
		if j.err != nil || j.res.Ended == "" {
			t.Errorf("%+v, %v", j.res, j.err)
		}
		if n := j.alive(); len(n) > 0 {
			t.Errorf("they live on: %v", n)
		}
	})
}

// What a command leaves behind ends with it.
func TestEndEndsAll(t *testing.T) {
	both(t, func(t *testing.T, grouped bool) {
		j := begin(t, hostexec.Limits{}, grouped, scattered+"exit 3")
		j.wait()
		if j.err != nil || j.res.Ended != "" || j.res.Status != 3 {
			t.Errorf("%+v, %v", j.res, j.err)
		}
		if n := j.alive(); len(n) > 0 {
			t.Errorf("they live on: %v", n)
		}
	})
}

// A command that stops its helper gains no time.
func TestStoppedHelper(t *testing.T) {
	both(t, func(t *testing.T, grouped bool) {
		j := begin(t, hostexec.Limits{Time: time.Second}, grouped, scattered+"kill -STOP $PPID; sleep $n")
		j.wait()
		if j.res.Ended == "" {
			t.Errorf("%+v, %v", j.res, j.err)
		}
		if n := j.alive(); len(n) > 0 {
			t.Errorf("they live on: %v", n)
		}
	})
}

// One that kills its helper is lost without a control group, and the guardian
// waits for nobody.
func TestKilledHelper(t *testing.T) {
	both(t, func(t *testing.T, grouped bool) {
		j := begin(t, hostexec.Limits{}, grouped, scattered+"kill -KILL $PPID; sleep $n")
		j.wait()
		if j.err == nil || !strings.Contains(j.err.Error(), "its helper died") {
			t.Errorf("%+v, %v", j.res, j.err)
		}
		if n := j.alive(); grouped && len(n) > 0 {
			t.Errorf("they live on: %v", n)
		}
	})
}

func TestProcessorTime(t *testing.T) {
	both(t, func(t *testing.T, grouped bool) {
		j := begin(t, hostexec.Limits{CPU: time.Second}, grouped, "while :; do :; done")
		j.wait()
		byKernel := j.res.Status == 128+int(syscall.SIGXCPU) || j.res.Status == 128+int(syscall.SIGKILL)
		if j.err != nil || grouped && !strings.Contains(j.res.Ended, "processors for more than 1s") && !byKernel || !grouped && !byKernel {
			t.Errorf("%+v, %v", j.res, j.err)
		}
	})
	t.Run("of many processes", func(t *testing.T) {
		t.Parallel()
		j := begin(t, hostexec.Limits{CPU: 2 * time.Second}, true, "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait")
		j.wait()
		if j.err != nil || !strings.Contains(j.res.Ended, "processors for more than 2s") {
			t.Errorf("%+v, %v", j.res, j.err)
		}
	})
}

func TestMemoryAndProcesses(t *testing.T) {
	j := begin(t, hostexec.Limits{Memory: 64 << 20}, true, "head -c 100000000 /dev/zero | tail -c 99000000 >/dev/null")
	j.wait()
	if j.err != nil || !strings.Contains(j.res.Ended, "67108864 bytes of memory") {
		t.Errorf("%+v, %v", j.res, j.err)
	}
	control := begin(t, hostexec.Limits{Memory: 1 << 30}, true, "head -c 100000000 /dev/zero | tail -c 99000000 >/dev/null")
	control.wait()
	if control.err != nil || control.res.Ended != "" || control.res.Status != 0 {
		t.Errorf("control: %+v, %v", control.res, control.err)
	}
	const forks = "i=0; while [ $i -lt 100 ]; do sleep $n & i=$((i+1)); done; exit 5"
	j = begin(t, hostexec.Limits{PIDs: 20}, true, forks)
	j.wait()
	if j.err != nil || j.res.Status != 2 {
		t.Errorf("a hundred processes where 20 may be: %+v, %v", j.res, j.err)
	}
	control = begin(t, hostexec.Limits{PIDs: 1000}, true, forks)
	control.wait()
	if control.err != nil || control.res.Status != 5 {
		t.Errorf("control: %+v, %v", control.res, control.err)
	}
}
