package localuser

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/onhost"
)

// join says who the payload of a box is, if the box is the caller's. there is nil as long as
// it is: whoever was let in may stop this process by a control group until the number of the box
// is another's.
func (o *owner) join(h sandbox.Handle) (uid, gid int, there func() error, err error) {
	init, err := onhost.Process(h)
	if err != nil {
		return 0, 0, nil, err
	}
	refused := fmt.Errorf("join cloister: process %d is the first of no box of uid %d", init, o.uid)
	pidfd, err := unix.PidfdOpen(init, 0)
	if err != nil {
		return 0, 0, nil, refused
	}
	// It stays open: this process is for one order.
	text, err := os.ReadFile("/proc/" + strconv.Itoa(init) + "/status")
	if err != nil {
		return 0, 0, nil, refused
	}
	// A first process, of a process of the helper's, which has this caller's uid
	// among its words. They are root's: no other process can change them.
	numbers := strings.Fields(field(text, "NSpid"))
	parent := "/proc/" + field(text, "PPid")
	if len(numbers) < 2 || numbers[len(numbers)-1] != "1" || !o.same(parent) {
		return 0, 0, nil, refused
	}
	var bad [2]error
	uid, bad[0] = strconv.Atoi(field(text, "Uid"))
	gid, bad[1] = strconv.Atoi(field(text, "Gid"))
	if err := errors.Join(bad[:]...); err != nil || uid == 0 || unix.PidfdSendSignal(pidfd, 0, nil, 0) != nil {
		return 0, 0, nil, refused
	}
	there = func() error {
		if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
			return fmt.Errorf("join cloister: it has ended: %w", err)
		}
		return nil
	}
	return uid, gid, there, nil
}

// same reports whether a process is one of the helper's for the same caller.
func (o *owner) same(proc string) bool {
	mine, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	its, err := os.Stat(proc + "/exe")
	if err != nil || !os.SameFile(mine, its) {
		return false
	}
	status, err := os.ReadFile(proc + "/status")
	if err != nil || field(status, "Uid") != "0" {
		return false
	}
	words, err := os.ReadFile(proc + "/cmdline")
	list := bytes.Split(words, []byte{0})
	return err == nil && len(list) > 2 && string(list[1]) == OwnerName && string(list[2]) == strconv.Itoa(o.uid)
}

// field is a line of a process's status: of several numbers the first, but for NSpid.
func field(status []byte, name string) string {
	for line := range strings.Lines(string(status)) {
		key, value, ok := strings.Cut(line, ":")
		if !ok || key != name {
			continue
		}
		if value = strings.TrimSpace(value); name != "NSpid" {
			value, _, _ = strings.Cut(value, "\t")
		}
		return value
	}
	return ""
}
