package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/needs"
	"cloister/kernel/lsm"
)

// TestWeakKernels boots the newest kernel in ways in which it does not judge: it says so, in one line
// with what would change it.
func TestWeakKernels(t *testing.T) {
	list := strings.Split(os.Getenv("CLOISTER_LSM_KERNELS"), ":")
	if list[0] == "" {
		t.Skip("CLOISTER_LSM_KERNELS names no kernels: script/test lsm")
	}
	var mu sync.Mutex
	var rows []string
	t.Cleanup(func() {
		folder := os.Getenv("CLOISTER_LSM_REPORT")
		if folder == "" || t.Failed() {
			return
		}
		slices.Sort(rows)
		if err := os.WriteFile(filepath.Join(folder, "weak.tsv"), []byte(strings.Join(rows, "")), 0o644); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct{ name, words, want string }{
		{"bpf is not in the list", "lsm=landlock,lockdown,yama", "boot with bpf in the list of security modules"},
		{"lockdown", "lsm=landlock,lockdown,yama,bpf lockdown=confidentiality", "lockdown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			console := needs.Guest{Kernel: list[len(list)-1], Env: c.words + " CLOISTER_GUEST=weak"}.Boot(t)
			_, said, ok := strings.Cut(console, "@@ weak\t")
			said, _, _ = strings.Cut(said, "\n")
			if !ok || !strings.Contains(said, c.want) {
				t.Errorf("it says %q:\n%s", said, console)
			}
			mu.Lock()
			defer mu.Unlock()
			rows = append(rows, fmt.Sprintf("weak\t%s\t%s\n", c.name, said))
		})
	}
}

// openWeak is what a guest does that was booted so: both ways to ask are to say the same.
func openWeak() int {
	k, err := lsm.Open()
	if err == nil {
		_, err = k.Begin(context.Background(), group)
	}
	var weak *lsm.Unsupported
	if !errors.As(err, &weak) {
		fmt.Println("it would judge, or fails with no reason:", err)
		return 1
	}
	fmt.Printf("@@ weak\t%s; %s\n", oneLine(weak.Error()), weak.Fix)
	return 0
}

// oneLine is the beginning of what an error says.
func oneLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return text[:min(len(text), 200)]
}

// withoutTypes says what is said where the kernel's types are not there, in a mount namespace in which
// they are covered; "" where that fails for another reason.
func withoutTypes() string {
	c := exec.CommandContext(context.Background(), "/proc/self/exe")
	c.Env = []string{"CLOISTER_ATTEMPT=without types"}
	out, _ := c.Output()
	return strings.TrimSpace(string(out))
}

func init() {
	attempts["without types"] = func() error {
		runtime.LockOSThread() // the namespace is this thread's alone
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", "/sys/kernel/btf", "tmpfs", 0, "")); err != nil {
			return err
		}
		_, err := lsm.Open()
		var weak *lsm.Unsupported
		if !errors.As(err, &weak) || !strings.Contains(weak.Fix, "CONFIG_DEBUG_INFO_BTF") {
			return fmt.Errorf("it says %w", err)
		}
		fmt.Printf("%s; %s\n", oneLine(weak.Error()), weak.Fix)
		os.Exit(0)
		return nil
	}
}
