package corpus

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr23a() escape.Case {
	return escape.Case{
		ID: "PR-23a", Class: "what a person has once", Attack: "take all of what the kernel counts for a person and not for a process: instances of inotify, signals that wait; half of it is left to the programs outside",
		Source: "attack on this code: no editor could watch, no timer be made; user_namespaces(7)", Layers: []string{"limits of the user namespace", "rlimits"},
		Except: map[escape.Column]string{
			escape.Docker:  "the engine's containers have no user namespace of their own to count in",
			escape.User:    "they are counted for the account of the payload, not for the person",
			escape.GVisor:  "instances and signals are gVisor's own, of one cloister",
			escape.MicroVM: "the guest's own kernel counts there, and the host's counts nothing of it",
		},
		Host: func(w *escape.World) []escape.Finding {
			var instances, signals int
			res := w.Outcome([]string{"--expose", w.Self}, w.Self, "take")
			_, err := fmt.Sscan(res.Stdout, &instances, &signals)
			out := []escape.Finding{found("it took what it could", err == nil && res.Status == 0, "status %d: %s%s", res.Status, res.Stdout, res.Stderr)}
			var limit unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, &limit); err != nil {
				return append(out, found("the limit of signals", false, "%v", err))
			}
			text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
			all := 0
			if err == nil {
				_, err = fmt.Sscan(strings.TrimSpace(string(text)), &all)
			}
			return append(out,
				found("the limit of inotify", err == nil, "%v", err),
				found("half of inotify is left", instances <= (all+1)/2, "%d of %d", instances, all),
				found("half of the signals are left", uint64(signals) <= min(limit.Cur, mostSignals)/2, "%d of %d", signals, limit.Cur),
				found("control: there is something to take", instances > 0 && signals > 0, "%d, %d", instances, signals))
		},
	}
}

// mostSignals are tried for where the host bounds them no lower, or not at all: half
// of them is what may be had then.
const mostSignals = 1_000_000

// Take takes instances of inotify and waiting signals until it is refused, and
// tells how many it had. Where its descriptors are what ends it, it tells how many
// instances several such processes may have together: without the wall that is
// more than any host has.
func Take() (instances, signals int) {
	together := math.MaxInt
	if text, err := os.ReadFile("/proc/sys/user/max_inotify_instances"); err == nil {
		_, _ = fmt.Sscan(string(text), &together) // what cannot be read is no bound
	}
	for instances < 100_000 {
		if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			break
		}
		instances++
	}
	if _, err := unix.Dup(0); err != nil || instances == 100_000 {
		instances = together
	}
	const realTime = 40 // not one of Go's own
	lockThread()
	set := unix.Sigset_t{Val: [16]uint64{1 << (realTime - 1)}}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
		return instances, 0
	}
	info := make([]byte, 128) // siginfo_t: number, error, code
	binary.NativeEndian.PutUint32(info, realTime)
	binary.NativeEndian.PutUint32(info[8:], ^uint32(0)) // SI_QUEUE
	at := mem(string(info))
	for signals < mostSignals {
		_, _, errno := unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(unix.Getpid()), uintptr(unix.Gettid()), realTime, at, 0, 0)
		if errno != 0 {
			break
		}
		signals++
	}
	return instances, signals
}
