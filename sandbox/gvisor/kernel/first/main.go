//go:build linux

// Command cloister-gvisor-first is the first process of a cloister that gVisor isolates.
//
// As "first" it makes the command, in a user namespace of its own, so that the command can
// look into neither this process nor those that "join" later: whoever may trace a process
// must be of its user namespace or above. It passes signals on, reaps, and reports how the
// command began and ended. As "join" it becomes the command.
//
// Both give up what is left of privileges, enter the filter of system calls that they were
// given, and execute; they know nothing of policy.
package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reportFD is where to report, whatever the caller's descriptors are. Others that it
// passed stand before it.
const reportFD = 3

// protocol is the version of what the caller and this program say to each other.
const protocol = "4"

// order is what the arguments say: MODE PROTOCOL FILTER MOVES COMMAND...
type order struct {
	mode   string
	filter []unix.SockFilter
	moves  [][2]int // descriptors to be put where the command expects them
	argv   []string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Println("cloister-gvisor-first", protocol)
		return
	}
	runtime.LockOSThread() // the filter, the bounding set and what is traced are a thread's
	o, err := read(os.Args)
	hideArguments(os.Args)
	if err != nil {
		end(err)
	}
	unix.CloseOnExec(reportFD)
	for _, m := range o.moves {
		if err := unix.Dup3(m[0], m[1], 0); err != nil {
			end(fmt.Errorf("place a standard descriptor: %w", err))
		}
		unix.Close(m[0])
	}
	p, err := prepare(o)
	if err != nil {
		end(err)
	}
	if o.mode == "join" {
		errno := p.become(false)
		say("exec %d", int(errno))
		os.Exit(126)
	}
	first(p)
}

// end reports what is wrong with this process itself.
func end(err error) {
	say("error %v", err)
	os.Exit(125)
}

func say(format string, args ...any) {
	_, _ = unix.Write(reportFD, []byte(fmt.Sprintf(format, args...)+"\n")) // nobody else could be told
}

func read(args []string) (order, error) {
	if len(args) < 6 {
		return order{}, fmt.Errorf("%d arguments", len(args))
	}
	if args[2] != protocol {
		say("other %s", protocol)
		os.Exit(125)
	}
	o := order{mode: strings.Clone(args[1])}
	text, err := base64.StdEncoding.DecodeString(args[3])
	if err != nil || len(text) == 0 || len(text)%8 != 0 {
		return o, fmt.Errorf("the filter has %d bytes", len(text))
	}
	o.filter = unsafe.Slice((*unix.SockFilter)(unsafe.Pointer(&text[0])), len(text)/8)
	for move := range strings.SplitSeq(args[4], ",") {
		from, to, _ := strings.Cut(move, ":")
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if move != "-" && (err1 != nil || err2 != nil) {
			return o, fmt.Errorf("descriptors %q", args[4])
		}
		if move != "-" {
			o.moves = append(o.moves, [2]int{a, b})
		}
	}
	for _, a := range args[5:] {
		o.argv = append(o.argv, strings.Clone(a))
	}
	return o, nil
}

// candidates are the files that the command's name may mean.
func candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var out []string
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for dir := range strings.SplitSeq(list, ":") {
				if dir == "" {
					dir = "."
				}
				out = append(out, dir+"/"+name)
			}
		}
	}
	return out
}

// first makes the command and lives as long as it.
func first(p *program) {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	pid, errno := p.spawn()
	if errno != 0 {
		say("exec %d", int(errno))
		os.Exit(126)
	}
	say("started")
	// Only the thread that made the command can let it go where it traces itself, so that
	// thread waits, and another passes signals on.
	go pass(signals, pid)
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			say("error wait: %v", err)
			os.Exit(125)
		case ws.Stopped():
			letGo(got, ws)
		case got == pid:
			say("end %d", uint32(ws))
			os.Exit(0)
		}
	}
}

// asked is the signal at which this process says the name of its host. It is asked when it goes on in
// another sandbox, of whose gate nothing is served before.
const asked = syscall.Signal(64)

// identify says by which name this process goes on.
func identify() {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		say("error %v", err)
		return
	}
	say("identity %s", unix.ByteSliceToString(u.Nodename[:]))
}

// pass passes signals on: as a terminal does, what ends a program goes to its group.
func pass(signals <-chan os.Signal, pid int) {
	for s := range signals {
		sig := s.(syscall.Signal)
		switch sig {
		case unix.SIGCHLD, unix.SIGURG:
		case asked:
			identify()
		case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
			_ = unix.Kill(-pid, sig) // it may have ended
		default:
			_ = unix.Kill(pid, sig)
		}
	}
}

// letGo sends on a child that has stopped and not ended: one that took its parent for its
// tracer. It gets the signal at which it stopped, but for what an execution brings.
func letGo(pid int, ws unix.WaitStatus) {
	sig := ws.StopSignal()
	if sig == unix.SIGTRAP {
		sig = 0
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(sig), 0, 0)
}
