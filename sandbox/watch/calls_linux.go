package watch

import (
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// A call is a system call that names a path.
type call struct {
	nr  int
	use use
	// dir and path are the arguments that name it; dir is -1 where the folder of the caller
	// is meant. flags is the argument of open's flags, or -1.
	dir, path, flags int
	// nofollow is set where a link itself is meant.
	nofollow bool
	// fresh is set where a name is made that must not be there.
	fresh bool
	argv  int // the argument with the words of a program, for executes
	// from is set where the name is one that is left for another, or gets another: it is looked at for
	// patterns alone.
	from bool
}

// calls are those that are the same on every architecture; older names are in olderCalls.
func calls() []call {
	return append([]call{
		{nr: unix.SYS_EXECVE, use: executes, dir: -1, path: 0, flags: -1, argv: 1},
		{nr: unix.SYS_EXECVEAT, use: executes, dir: 0, path: 1, flags: -1, argv: 2},
		{nr: unix.SYS_OPENAT, use: reads, dir: 0, path: 1, flags: 2},
		{nr: unix.SYS_TRUNCATE, use: writes, dir: -1, path: 0, flags: -1},
		{nr: unix.SYS_UNLINKAT, use: writes, dir: 0, path: 1, flags: -1, nofollow: true},
		{nr: unix.SYS_MKDIRAT, use: writes, dir: 0, path: 1, flags: -1, nofollow: true, fresh: true},
		{nr: unix.SYS_MKNODAT, use: writes, dir: 0, path: 1, flags: -1, nofollow: true, fresh: true},
		{nr: unix.SYS_RENAMEAT2, use: writes, dir: 0, path: 1, flags: -1, nofollow: true},
		{nr: unix.SYS_RENAMEAT2, use: writes, dir: 2, path: 3, flags: -1, nofollow: true},
		{nr: unix.SYS_LINKAT, use: writes, dir: 0, path: 1, flags: -1, nofollow: true, from: true},
		{nr: unix.SYS_LINKAT, use: writes, dir: 2, path: 3, flags: -1, nofollow: true, fresh: true},
		{nr: unix.SYS_SYMLINKAT, use: writes, dir: 1, path: 2, flags: -1, nofollow: true, fresh: true},
	}, olderCalls()...)
}

// changing are the flags of an open that changes something.
const changing = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// Filter is what a command's process installs, with a listener (seccomp(2)).
// Opens that only read are among what it asks about where a rule is about reading.
func Filter(about sandbox.Watched) ([]unix.SockFilter, error) {
	opens := about.All || about.Permits.Opens
	changes := opens
	for _, r := range about.Rules {
		if _, err := patternOf(r); r.Glob && err != nil {
			return nil, fmt.Errorf("watch files: %w", err)
		}
		opens, changes = opens || r.Read, changes || r.Read || r.Write
	}
	const allow, notify = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_USER_NOTIF
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: allow}, // the payload's own filter ends it
		bpf.LoadAbsolute{Off: 0, Size: 4},
	}
	done := map[int]bool{}
	for _, c := range calls() {
		if done[c.nr] || c.use == writes && !changes || c.use == reads && !opens && !changes {
			continue
		}
		done[c.nr] = true
		body := []bpf.Instruction{bpf.RetConstant{Val: notify}}
		if c.flags >= 0 {
			body = []bpf.Instruction{
				bpf.LoadAbsolute{Off: uint32(16 + 8*c.flags), Size: 4},
				bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.O_PATH, SkipFalse: 1},
				bpf.RetConstant{Val: allow},
			}
			if !opens {
				body = append(body, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: changing, SkipTrue: 1}, bpf.RetConstant{Val: allow})
			}
			body = append(body, bpf.RetConstant{Val: notify})
		}
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(c.nr), SkipFalse: uint8(len(body))})
		prog = append(prog, body...)
	}
	prog = append(prog, bpf.RetConstant{Val: allow})
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("assemble the filter that watches: %w", err)
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}
