package lsm_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/kernel/lsm"
)

// A row is an attempt against a rule. Each is made twice: with the rule it is refused,
// without it, in the same session, it comes off.
type row struct {
	name       string
	rule       lsm.Rule
	policy     *lsm.Policy                   // instead of the rule
	prepare    func(t *testing.T) []*os.File // before the attempt: files for it
	meanwhile  func(pid int) error           // when it says that it is ready
	outOfReach bool                          // by design it comes off either way
}

var (
	secret = lsm.Rule{Path: "/t/secret", Forbid: lsm.Read | lsm.Write | lsm.List}
	single = lsm.Rule{Path: "/t/single", Forbid: lsm.Read | lsm.Write}
	kept   = lsm.Rule{Path: "/t/kept", Forbid: lsm.Write}
	tool   = lsm.Rule{Path: "/t/bin/busybox", Forbid: lsm.Exec | lsm.Code}
	tools  = lsm.Rule{Path: "/t/bin", Forbid: lsm.Exec | lsm.Code}
	unread = lsm.Rule{Path: "/t/bin/busybox", Forbid: lsm.Read | lsm.Exec | lsm.Code}
	above  = lsm.Rule{Path: "/t/above/secret", Forbid: lsm.All}
)

func moveOut(pid int) error {
	return os.WriteFile("/sys/fs/cgroup/cgroup.procs", []byte(fmt.Sprint(pid)), 0)
}

// rows is the table of what is known to get around other guards.
func rows() []row {
	list := func(rule lsm.Rule, names ...string) []row {
		var out []row
		for _, name := range names {
			out = append(out, row{name: name, rule: rule})
		}
		return out
	}
	all := list(secret, "open", "open deep", "open a folder", "working folder", "symlink", "hard link", "rename", "rename the folder",
		"exchange", "bind mount", "open_tree", "overlay", "overlay by fsopen", "chroot", "user namespace", "O_PATH and /proc/self/fd",
		"/proc/self/root", "open by handle", "io_uring", "open for mmap")
	all = append(all, list(single, "open single", "hard link of a file")...)
	all = append(all, list(above, "rename above")...)
	all = append(all, list(kept, "create", "write", "append", "truncate", "remove", "remove a folder", "rename within", "rename into",
		"rename out", "link into", "link out", "make a folder", "make a symlink", "make a node", "O_TMPFILE", "mode", "owner", "times",
		"attribute", "attribute removed", "mode by a descriptor", "read where only writing is forbidden")...)
	all = append(all, list(tool, "execute", "by a link", "by a hard link", "renamed", "by its folder", "execveat", "chroot and execute",
		"as an interpreter", "mmap as code", "mprotect as code", "by a shell", "memfd")...)
	all = append(all, list(tools, "by ld.so", "a script")...)
	all = append(all, list(unread, "a copy")...)
	all = append(all, listRows()...)
	all = append(all, guardRows()...)
	all = append(all,
		row{name: "connect to a socket", rule: secret, prepare: listens("unix")},
		row{name: "send to a socket", rule: secret, prepare: listens("unixgram")},
		row{name: "on an overlay", rule: lsm.Rule{Path: "/t/mnt/key", Forbid: lsm.Read}, prepare: layered},
		row{name: "on an overlay, copied up", rule: lsm.Rule{Path: "/t/mnt/key", Forbid: lsm.Read}, prepare: layered, meanwhile: copyUp},
		row{name: "by the host's bind mount", rule: secret, prepare: bound},
		row{name: "unmount what covers", rule: secret, prepare: covered},
		row{name: "a passed descriptor", rule: secret, prepare: passed},
		row{name: "moved cgroup", rule: secret, meanwhile: moveOut},
		row{name: "moved cgroup, a child", rule: secret, meanwhile: moveOut},
		row{name: "a script by its interpreter", rule: tools, outOfReach: true},
	)
	return all
}

func bound(t *testing.T) []*os.File {
	if err := unix.Mount("/t/secret", "/t/mnt", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	return nil
}

func covered(t *testing.T) []*os.File {
	if err := os.WriteFile("/t/mnt/covered", []byte("covered\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", "/t/mnt", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	return nil
}

// passed is a socket in which a descriptor of the secret waits.
func passed(t *testing.T) []*os.File {
	key, err := os.Open("/t/secret/key")
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	return send(t, key)
}

// send is a socket in which a file's descriptor waits.
func send(t *testing.T, file *os.File) []*os.File {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return []*os.File{theirs}
}

func TestKernelBypasses(t *testing.T) {
	s := begin(t)
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) {
			try := func(p lsm.Policy) string {
				tree(t)
				if err := unix.Setxattr("/t/kept/file", "trusted.before", []byte("1"), 0); err != nil {
					t.Fatal(err)
				}
				var files []*os.File
				if r.prepare != nil {
					files = r.prepare(t)
				}
				if err := s.Apply(os.Getpid(), p); err != nil {
					t.Fatal(err)
				}
				return start(t, r.attempt(), true, files...).result(r.meanwhile)
			}
			p := lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{r.rule}}
			if r.policy != nil {
				p = *r.policy
			}
			with := try(p)
			without := try(lsm.Policy{Permit: lsm.All})
			if r.name == "unmount what covers" || strings.Contains(r.name, "bind mount") || r.name == "open_tree" || strings.HasPrefix(r.name, "overlay") || r.name == "list: bind mount" || r.name == "user namespace" && r.policy == nil {
				// Under a policy of files nothing is mounted at all: the control is outside.
				tree(t)
				var files []*os.File
				if r.prepare != nil {
					files = r.prepare(t)
				}
				without = start(t, r.attempt(), false, files...).result(r.meanwhile)
			}
			want := "EACCES"
			if r.outOfReach {
				want = "through"
			}
			fmt.Printf("@@ row\t%s\t%s\t%s\n", r.name, with, without)
			if !strings.HasPrefix(with, want) && !(r.policy != nil && strings.HasPrefix(with, "EPERM")) {
				t.Errorf("with the rule: %s, want %s", with, want)
			}
			if without != "through" {
				t.Errorf("the control: %s", without)
			}
		})
	}
}

// What the host does is not judged, and what ends a session frees nothing.
func TestKernelOutsideAndAfterwards(t *testing.T) {
	inGuest(t)
	tree(t)
	first, err := loaded.Begin(t.Context(), group) // it pins
	if err != nil {
		t.Fatal(err)
	}
	k, err := lsm.Open() // another process's word: it joins
	if err != nil {
		t.Fatal(err)
	}
	if k.Programs() != loaded.Programs() {
		t.Errorf("%d programs, not the %d that are loaded", k.Programs(), loaded.Programs())
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := k.Begin(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(os.Getpid(), lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{secret}}); err != nil {
		t.Fatal(err)
	}
	if err := lsm.Holds(group); err != nil {
		t.Errorf("during the session: %v", err)
	}
	if got := start(t, "open", false).result(nil); got != "through" {
		t.Errorf("outside: %s", got)
	}
	if got := start(t, "open", true).result(nil); !strings.HasPrefix(got, "EACCES") {
		t.Errorf("inside: %s", got)
	}
	after := start(t, "after the session", true)
	if got := after.result(func(int) error { return s.Close() }); !strings.HasPrefix(got, "EACCES") {
		t.Errorf("after the end of the session: %s", got)
	}
	if err := lsm.Holds(group); err == nil {
		t.Error("after the end of the session its group is said to be judged")
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(lsm.Pins + "/*/*"); err != nil || len(left) > 0 {
		t.Errorf("the last session is over, and there are still %q, %v", left, err)
	}
}

// A reload holds for what runs, in both directions.
func TestKernelReload(t *testing.T) {
	s := begin(t)
	tree(t)
	free, tight := lsm.Policy{Permit: lsm.All}, lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{{Path: "/t/open", Forbid: lsm.Read}}}
	if err := s.Apply(os.Getpid(), free); err != nil {
		t.Fatal(err)
	}
	got := start(t, "after a reload", true).result(func(int) error { return s.Apply(os.Getpid(), tight) })
	if !strings.HasPrefix(got, "EACCES") {
		t.Errorf("after a forbid was added: %s", got)
	}
	got = start(t, "open", true).result(nil)
	if got != "through" {
		t.Errorf("what no rule forbids: %s", got)
	}
	if err := s.Apply(os.Getpid(), free); err != nil {
		t.Fatal(err)
	}
	if got := start(t, "after a reload", true).result(nil); got != "through" {
		t.Errorf("after it was removed: %s", got)
	}
}

func TestKernelEvents(t *testing.T) {
	s := begin(t)
	tree(t)
	if err := s.Apply(os.Getpid(), lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{secret}}); err != nil {
		t.Fatal(err)
	}
	c := start(t, "open deep", true)
	pid := c.cmd.Process.Pid
	c.result(nil)
	var executed, denied lsm.Event
	for denied.PID == 0 {
		e, err := s.Read(time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if e.PID != pid {
			t.Fatalf("of another process: %+v", e)
		}
		if e.Why == lsm.Allowed {
			executed = e
		} else {
			denied = e
		}
	}
	if executed.Op != lsm.Executed || executed.Path != "/init" {
		t.Errorf("executed: %+v", executed)
	}
	if denied.Op != lsm.Opened || denied.Path != "/t/secret/deep/er/key" || denied.Rule != "/t/secret" || denied.Need != lsm.Read ||
		denied.Why != lsm.Forbidden || denied.When.IsZero() {
		t.Errorf("denied: %+v", denied)
	}

	// What finds no room is counted.
	if got := start(t, "flood", true).result(nil); !strings.HasPrefix(got, "EACCES") {
		t.Errorf("with a full ring: %s", got)
	}
	counts, err := s.Counts()
	refused, dropped := counts.Denied, counts.Dropped
	if err != nil || refused < 2001 || dropped == 0 || dropped >= refused {
		t.Errorf("refused %d, dropped %d: %v", refused, dropped, err)
	}
	fmt.Printf("@@ flood\t%d refused\t%d dropped\n", refused, dropped)
}

func TestKernelLimits(t *testing.T) {
	s := begin(t)
	tree(t)
	t.Run("deeper than is looked at", func(t *testing.T) {
		if err := s.Apply(os.Getpid(), lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{kept}}); err != nil {
			t.Fatal(err)
		}
		if got := start(t, "deep", true).result(nil); !strings.HasPrefix(got, "EACCES") {
			t.Error(got)
		}
	})
	tree(t)
	t.Run("a path that nothing has", func(t *testing.T) {
		err := s.Apply(os.Getpid(), lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{{Path: "/t/none", Forbid: lsm.All}, secret}})
		var absent *lsm.Absent
		if !errors.As(err, &absent) || len(absent.Paths) != 1 || absent.Paths[0] != "/t/none" {
			t.Fatal(err)
		}
		if got := start(t, "open", true).result(nil); !strings.HasPrefix(got, "EACCES") {
			t.Errorf("the other rule: %s", got)
		}
	})
	t.Run("ten thousand rules", func(t *testing.T) {
		p := lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{secret}}
		for i := range 10_000 {
			name := fmt.Sprintf("/t/open/%d", i)
			if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			p.Rules = append(p.Rules, lsm.Rule{Path: name, Forbid: lsm.All})
		}
		if err := s.Apply(os.Getpid(), p); err != nil {
			t.Fatal(err)
		}
		if got := start(t, "open", true).result(nil); !strings.HasPrefix(got, "EACCES") {
			t.Error(got)
		}
		if got := start(t, "ten thousandth", true).result(nil); !strings.HasPrefix(got, "EACCES") {
			t.Error(got)
		}
	})
	t.Run("a forbid of everything", func(t *testing.T) {
		c := start(t, "after a reload", true) // it starts before
		if got := c.result(func(int) error { return s.Apply(os.Getpid(), lsm.Policy{Permit: lsm.All, Forbid: lsm.Read}) }); !strings.HasPrefix(got, "EACCES") {
			t.Error(got)
		}
	})
}
