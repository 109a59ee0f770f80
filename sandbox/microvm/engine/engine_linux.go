package engine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// data is where the engine keeps images and containers: a file system of the guest's memory.
const data = "/run/engine"

// The role that executes the daemon, with the socket as descriptor 3.
const daemonRole = "daemon"

// Main is the engine, which serves the socket that is its descriptor 3. It is the first process
// of a namespace of its own, with whose end all that it started ends.
func Main(args, env []string) int {
	err := errors.New("not the first process of a namespace")
	switch {
	case len(args) == 1 && args[0] == daemonRole:
		err = become(env)
	case os.Getpid() == 1:
		if err = mounts(); err == nil {
			err = supervise(env)
		}
	}
	fmt.Fprintln(os.Stderr, Name+":", err)
	return 1
}

// supervise starts containerd and the daemon, and ends with either.
func supervise(env []string) error {
	list := filepath.Join(data, "containerd.toml")
	if err := os.WriteFile(list, []byte(settings), 0o600); err != nil {
		return err
	}
	containerd := find("containerd")
	if containerd == "" {
		return errors.New("there is no containerd in " + strings.Join(Folders(), ", "))
	}
	at := filepath.Join(data, "containerd.sock")
	first, err := start(env, containerd, []string{"containerd", "--config=" + list, "--root=" + data + "/containerd",
		"--state=" + data + "/state", "--address=" + at, "--log-level=warn"}, 0, 1, 2)
	if err != nil {
		return err
	}
	if err := listens(at, first); err != nil {
		return err
	}
	second, err := start(env, "/proc/self/exe", []string{Name, daemonRole}, 0, 1, 2, 3)
	if err != nil {
		return err
	}
	for {
		var ws syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &ws, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case pid == first:
			return fmt.Errorf("containerd ended: %#x", ws)
		case pid == second:
			return fmt.Errorf("dockerd ended: %#x", ws)
		}
	}
}

// settings leave out of containerd what serves Kubernetes.
const settings = `version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
`

func start(env []string, file string, argv []string, descriptors ...uintptr) (int, error) {
	attr := &syscall.ProcAttr{Dir: "/", Env: environment(env), Files: descriptors}
	pid, err := syscall.ForkExec(file, argv, attr)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return pid, nil
}

// listensWithin bounds the wait for containerd: an emulated guest takes long.
const listensWithin = 5 * time.Minute

// listens waits until a socket is served by a process that is alive.
func listens(at string, pid int) error {
	end := time.After(listensWithin)
	for {
		c, err := net.Dial("unix", at)
		if err == nil {
			return c.Close()
		}
		var ws syscall.WaitStatus
		if ended, _ := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil); ended == pid {
			return fmt.Errorf("containerd ended: %#x", ws)
		}
		select {
		case <-end:
			return fmt.Errorf("wait for containerd: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// mounts are what an engine needs and a command has not.
func mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV
	for _, m := range []struct {
		kind, at, words string
		flags           uintptr
	}{
		{"proc", "/proc", "", plain | unix.MS_NOEXEC},
		{"sysfs", "/sys", "", plain | unix.MS_NOEXEC},
		{"cgroup2", "/sys/fs/cgroup", "", plain | unix.MS_NOEXEC},
		{"tmpfs", Settings, "mode=0700,size=1m", plain | unix.MS_NOEXEC},
		{"tmpfs", data, "mode=0700,size=75%", 0}, // containers have devices and set-id programs
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.words); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}

// become executes the daemon. What its networks need of packet rules the guest's gate has
// (gate.Bridges); nothing is forwarded.
func become(env []string) error {
	daemon := find("dockerd")
	if daemon == "" {
		return errors.New("there is no dockerd in " + strings.Join(Folders(), ", "))
	}
	words := []string{"dockerd", "--host=fd://", "--containerd=" + data + "/containerd.sock",
		"--data-root=" + data + "/data", "--exec-root=" + data + "/run", "--pidfile=" + data + "/pid", "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false",
		"--storage-driver=overlay2", "--log-level=warn"}
	own := []string{"LISTEN_FDS=1", "LISTEN_PID=" + strconv.Itoa(os.Getpid())} // sd_listen_fds(3)
	return unix.Exec(daemon, words, slices.Concat(environment(env), own))
}

// environment is what of the first command's names certificate authorities.
func environment(all []string) []string {
	out := []string{"PATH=" + strings.Join(Folders(), ":"), "HOME=" + data}
	for _, e := range all {
		if name, _, _ := strings.Cut(e, "="); slices.Contains([]string{"SSL_CERT_FILE", "SSL_CERT_DIR", "TZ"}, name) {
			out = append(out, e)
		}
	}
	return out
}

func find(name string) string {
	for _, dir := range Folders() {
		at := filepath.Join(dir, name)
		if fi, err := os.Stat(at); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 {
			return at
		}
	}
	return ""
}
