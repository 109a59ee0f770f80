package guest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox/gate"
	"cloister/sandbox/gate/lay"
	"cloister/sandbox/microvm/engine"
	"cloister/sandbox/microvm/kernel"
)

// engine opens the socket of the private engine, where there is to be one. The engine itself
// starts with the first that connects.
func (g *guest) engine() error {
	if !g.setup.Engine {
		return nil
	}
	if g.setup.Network {
		routes, rules := gate.Bridges()
		if err := lay.Converse(unix.NETLINK_ROUTE, routes); err != nil {
			return fmt.Errorf("set routes: %w", err)
		}
		if err := lay.Converse(unix.NETLINK_NETFILTER, rules); err != nil {
			return fmt.Errorf("set packet rules: %w", err)
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("/run: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: engine.Socket, Net: "unix"})
	if err != nil {
		return err
	}
	f, err := l.File()
	if err != nil {
		return err
	}
	err = errors.Join(os.Chmod(engine.Socket, 0o600), os.Chown(engine.Socket, g.setup.User, g.setup.User))
	if err != nil {
		return err
	}
	go g.engines(l, f)
	return nil
}

// inserted inserts the modules of an engine, before the initrd is out of sight.
func (g *guest) inserted() error {
	if !g.setup.Engine {
		return nil
	}
	return insert(kernel.EngineModulesAt)
}

// soon is how early an end of the engine shows that it cannot run.
const soon = time.Minute

// engines starts the engine whenever a process waits at its socket and none runs. One that waits
// for one that could not run is let go.
func (g *guest) engines(l *net.UnixListener, f *os.File) {
	for {
		poll := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if poll[0].Revents == 0 {
			continue
		}
		began := time.Now()
		end, err := g.startEngine(f)
		if err == nil {
			<-end
		}
		if err != nil || time.Since(began) < soon {
			drain(l)
		}
	}
}

func (g *guest) startEngine(socket *os.File) (chan unix.WaitStatus, error) {
	log, err := os.OpenFile(engine.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	g.Lock()
	defer g.Unlock()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{engine.Name}, &syscall.ProcAttr{
		Dir: "/", Env: g.environment(), Files: []uintptr{null.Fd(), log.Fd(), log.Fd(), socket.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID},
	})
	if err != nil {
		fmt.Fprintf(log, "%s: %v\n", engine.Name, err)
		return nil, err
	}
	return g.know(pid), nil
}

// environment is the first command's.
func (g *guest) environment() []string {
	g.gather.Lock()
	defer g.gather.Unlock()
	return g.first
}

// drain closes what waits.
func drain(l *net.UnixListener) {
	for l.SetDeadline(time.Now().Add(time.Millisecond)) == nil {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}
