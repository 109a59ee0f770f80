package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"cloister/sandbox/microvm/wire"
)

// Main is the guest's first process. It returns when the guest is to stop.
func Main(ctx context.Context) int {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, Name+" is the first process of a guest")
		return 2
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, Name+":", err) // the console, of which the monitor keeps the end
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // with -no-reboot the monitor's program ends
	return 1
}

func run(ctx context.Context) error {
	port, ok := awake()
	if !ok {
		return sleep()
	}
	s, err := wire.Guest(port)
	if err != nil {
		return err
	}
	hello, err := wire.Open(s, wire.Head{Hello: wire.Protocol})
	if err != nil {
		return err
	}
	var setup wire.Setup
	if err := wire.Hear(hello, &setup); err != nil {
		return fmt.Errorf("hear what to be: %w", err)
	}
	g := &guest{s: s, setup: setup, reaper: newReaper(), waiting: map[uint32]*parts{},
		connections: make(chan struct{}, wire.MaxConnections-asking)}
	if err := g.become(); err != nil {
		return errors.Join(err, wire.Say(hello, wire.Word{Failed: err.Error()}))
	}
	if err := wire.Say(hello, wire.Word{Ready: true}); err != nil {
		return err
	}
	go g.forget()
	return g.serve(ctx)
}

// early mounts what the rest is found by.
func early() error {
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}

// insert inserts modules of the initrd, in their order.
func insert(folder string) error {
	list, err := filepath.Glob(folder + "/*")
	if err != nil {
		return err
	}
	slices.Sort(list)
	for _, name := range list {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("insert %s: %w", name, err)
		}
	}
	return nil
}

// findPort opens the port to the monitor: the one that is there.
func findPort() (*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && strings.TrimSpace(string(text)) == wire.Port {
			return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(name)), os.O_RDWR, 0)
		}
	}
	return nil, fmt.Errorf("there is no port %s among %q", wire.Port, names)
}

// guest is the life of one.
type guest struct {
	s     *yamux.Session
	setup wire.Setup

	*reaper
	gathering
	waiting map[uint32]*parts
	first   []string // the first command's environment

	connections chan struct{} // a place for each that is handed on
}
