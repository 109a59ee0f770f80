package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox/microvm/wire"
)

// Command and Setup are those of package wire.
type (
	Command = wire.Run
	Setup   = wire.Setup
)

// Order is what a box is, or one more command.
type Order struct {
	QEMU     string `json:"qemu"`   // on the stage, as on the host
	Server   string `json:"server"` // virtiofsd
	Memory   int64  `json:"memory"` // of the guest, in MiB
	CPUs     int    `json:"cpus"`
	KVM      bool   `json:"kvm"`
	Code     int64  `json:"code"` // what QEMU may keep of translated code where it emulates, in MiB
	View     string `json:"view"`
	State    string `json:"state"`
	Command  Command
	Setup    Setup
	Boot     int      `json:"boot"`               // seconds until a guest has booted, or is given up
	Writable []string `json:"writable"`           // of the view, by their guest paths
	Template string   `json:"template,omitempty"` // the digest of the one that it begins from
	Layers
}

// Main is the monitor. args are the role, the descriptor on which to report, and another: of the order of one more
// command, of the template that a box begins from, or of the file of one that is to be made.
func Main(ctx context.Context, args []string) int {
	if len(args) < 2 {
		return 2
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil || fd < 3 {
		return 2
	}
	unix.CloseOnExec(fd)
	r := &report{os.NewFile(uintptr(fd), "report")}
	switch args[0] {
	case RoleBox:
		var from *os.File
		if len(args) > 2 {
			if from, err = passed(args[2], "template"); err != nil {
				break
			}
		}
		err = runBox(ctx, r, from)
	case RoleKeep:
		err = runKeep(r, args[2:])
	case RoleMore:
		err = runMore(r, args[2:])
	default:
		err = fmt.Errorf("role %q is not known", args[0])
	}
	if err != nil {
		r.say("error %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// report tells the driver how a command goes, a line for each word.
type report struct{ to *os.File }

func (r *report) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.to, format+"\n", args...) // a driver that does not listen has ended the box
}

// word passes a guest's word on.
func (r *report) word(w wire.Word) (over bool) {
	switch {
	case w.Started:
		r.say("started")
	case w.Exec > 0:
		r.say("exec %d", w.Exec)
		return true
	case w.Failed != "":
		r.say("error %s", strings.ReplaceAll(w.Failed, "\n", "; "))
		return true
	case w.End != nil:
		r.say("end %d", *w.End)
		return true
	}
	return false
}

func readOrder(f io.Reader) (o Order, err error) {
	return o, json.NewDecoder(f).Decode(&o)
}

// passed is a descriptor that came along.
func passed(number, name string) (*os.File, error) {
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name), nil
}

// runKeep makes a template.
func runKeep(r *report, args []string) error {
	if len(args) != 1 {
		return errors.New("no file for a template came")
	}
	to, err := passed(args[0], "template")
	if err != nil {
		return err
	}
	b, err := ordered(r)
	if err != nil {
		return err
	}
	if err := b.keep(to); err != nil {
		return err
	}
	r.say("started")
	r.say("end 0")
	return nil
}

// runMore asks the box's monitor for one more command, and passes signals on to it.
func runMore(r *report, args []string) error {
	if len(args) != 1 {
		return errors.New("no order came")
	}
	f, err := passed(args[0], "order")
	if err != nil {
		return err
	}
	o, err := readOrder(f)
	f.Close()
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	return ask(r, o)
}
