package sigquit_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/internal/sigquit"
)

// as says which of three programs this test is, when it is started again.
const as = "CLOISTER_TEST_SIGQUIT"

func TestMain(m *testing.M) {
	of := os.Getenv(as)
	if of == "" {
		os.Exit(m.Run())
	}
	if of != "go's" {
		if err := sigquit.Plain(); err != nil {
			panic(err)
		}
	}
	got := make(chan os.Signal, 1)
	if of == "asked" {
		signal.Notify(got, syscall.SIGQUIT)
	}
	fmt.Println("ready")
	select {
	case <-got:
		fmt.Println("it came")
	case <-time.After(time.Minute):
	}
}

// TestPlain: the signal ends a process without a word, and is received where it is asked for.
func TestPlain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere it is Go's")
	}
	for of, want := range map[string]struct {
		signal syscall.Signal
		out    string
		stack  bool
	}{"plain": {syscall.SIGQUIT, "", false}, "asked": {0, "it came\n", false}, "go's": {0, "", true}} {
		// As where core files are written: none of this process is.
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -S -c "$(ulimit -H -c)"; exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), as+"="+of)
		cmd.Dir = t.TempDir() // for what a kernel writes of a process that ended so
		var said strings.Builder
		cmd.Stderr = &said
		r, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		out := bufio.NewReader(r)
		if line, err := out.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		rest, _ := out.ReadString('\n') // it ends with the process
		err = cmd.Wait()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 || status.CoreDump() {
			t.Errorf("%s: %v is left of it, %v", of, left, err)
		}
		got := syscall.Signal(0)
		if status.Signaled() {
			got = status.Signal()
		}
		if got != want.signal || rest != want.out || strings.Contains(said.String(), "goroutine ") != want.stack {
			t.Errorf("%s: ended by %v, wrote %q and said %.200q", of, got, rest, said.String())
		}
	}
}
