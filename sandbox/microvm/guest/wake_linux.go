package guest

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/sandbox/microvm/kernel"
	"cloister/sandbox/microvm/wire"
)

// woken is the argument by which the first process knows that it has slept. The port's descriptor comes after it.
const woken = "woken"

// sleep prepares all that is the same in every machine, and waits for what is not. What comes after it may come in
// many machines, each a copy of this one: so it first makes the kernel's random numbers differ, and then executes
// itself again, so that the copies share no address and no seed of this process.
func sleep() error {
	if err := early(); err != nil {
		return err
	}
	if err := insert(kernel.ModulesAt); err != nil {
		return err
	}
	port, err := findPort()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(port, wire.Waits); err != nil {
		return err
	}
	var w wire.Wake
	if err := wire.Hear(port, &w); err != nil {
		return fmt.Errorf("wait to be woken: %w", err)
	}
	if err := reseed(w.Seed); err != nil {
		return fmt.Errorf("make random numbers of its own: %w", err)
	}
	now := unix.NsecToTimeval(w.Time)
	if err := unix.Settimeofday(&now); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	// The device of the view was not there before: a server of files cannot be kept.
	if err := os.WriteFile("/sys/bus/pci/rescan", []byte("1"), 0); err != nil {
		return fmt.Errorf("look for the view's device: %w", err)
	}
	fd := int(port.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", []string{Name, woken, strconv.Itoa(fd)}, nil)
}

// reseed gives the kernel's generator randomness that no other machine has, and has it draw its key anew.
func reseed(seed []byte) error {
	if len(seed) != wire.SeedSize {
		return fmt.Errorf("%d bytes came, and not %d", len(seed), wire.SeedSize)
	}
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	if _, err := f.Write(seed); err != nil {
		return err
	}
	// With the write, this is RNDADDENTROPY.
	if err := unix.IoctlSetPointerInt(fd, unix.RNDADDTOENTCNT, 8*len(seed)); err != nil {
		return fmt.Errorf("count them: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.RNDRESEEDCRNG, 0); err != nil {
		return fmt.Errorf("draw a key of them: %w", err)
	}
	return nil
}

// awake is the port of a first process that has slept.
func awake() (*os.File, bool) {
	if len(os.Args) != 3 || os.Args[1] != woken {
		return nil, false
	}
	fd, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return nil, false
	}
	unix.CloseOnExec(fd)
	_ = unix.SetNonblock(fd, true) // so that a read of it holds no thread
	return os.NewFile(uintptr(fd), "port"), true
}
