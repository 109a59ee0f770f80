package main

import (
	"cloister/script/check/reaper"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An engine is a Docker daemon or Podman's service that the checks start for
// themselves, with folders and a socket of its own.
type engine struct {
	r      *runner
	kind   string
	dir    string
	words  []string
	daemon *exec.Cmd
	ended  chan struct{}
	undo   func()
	over   bool
}

func (e *engine) socket() string { return filepath.Join(e.dir, "sock") }

// engine starts a Docker daemon that changes no packet rule, for root and the user.
func (r *runner) engine() *engine {
	e := &engine{r: r, kind: "docker", dir: filepath.Join(r.work, "engine")}
	e.words = strings.Fields("dockerd --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false")
	e.words = append(e.words, "--data-root", e.dir+"/root", "--exec-root", e.dir+"/exec", "--pidfile", e.dir+"/pid",
		"-H", "unix://"+e.socket(), "-G", r.machine.name)
	groups := reaper.Groups("docker*")
	const key = "/etc/docker/key.json"
	_, before := os.Stat(key)
	e.undo = func() {
		reaper.RemoveGroups("docker*", groups)
		if before != nil {
			_ = os.Remove(key) // an older daemon made it, or none
		}
	}
	return e.start()
}

// podman starts Podman's compatible service.
func (r *runner) podman() *engine {
	e := &engine{r: r, kind: "podman", dir: filepath.Join(r.work, "podman")}
	e.words = append(e.podman(), "system", "service", "--time", "0", "unix://"+e.socket())
	groups, locks := reaper.Groups("libpod*"), reaper.Kinds["locks"]()
	e.undo = func() {
		reaper.RemoveGroups("libpod*", groups)
		for _, lock := range reaper.Kinds["locks"]() {
			if !slices.Contains(locks, lock) {
				_ = os.Remove(lock) // what stays is found at the end
			}
		}
	}
	if e.start() == nil {
		return nil
	}
	if !r.command("the user may use podman", "sh", "-c", `chgrp "$1" "$2" && chmod 660 "$2"`, "sh", r.machine.name, e.socket()) {
		return nil
	}
	return e
}

// podman begins a command of Podman's with folders of its own.
func (e *engine) podman() []string {
	return []string{"podman", "--root", e.dir + "/root", "--runroot", e.dir + "/run", "--tmpdir", e.dir + "/tmp",
		"--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file"}
}

// start starts the daemon and waits until it answers.
func (e *engine) start() *engine {
	ok := e.r.check("start "+e.kind, func(out io.Writer) error {
		if err := os.MkdirAll(e.dir, 0o755); err != nil {
			return err
		}
		log, err := os.OpenFile(filepath.Join(e.r.work, "log", e.kind), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		temp := "/tmp"
		if e.kind == "podman" {
			temp = e.dir // it leaves each archive that it was given to load
		}
		e.daemon = e.r.program(context.WithoutCancel(e.r.ctx), cmd{words: e.words, env: []string{"TMPDIR=" + temp}})
		e.daemon.Stdout, e.daemon.Stderr = log, log
		if err := reaper.Start(e.daemon); err != nil {
			return err
		}
		e.ended = make(chan struct{})
		go func() {
			defer close(e.ended)
			_ = e.daemon.Wait() // how it ends is of no interest, once it is told to
			reaper.Reaped(e.daemon)
		}()
		e.r.later(e.end)
		if err := e.answers(); err != nil {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%w\n%s", err, tail(string(text), 20))
		}
		return nil
	})
	if !ok {
		return nil
	}
	return e
}

// answers waits until the daemon answers, for two minutes.
func (e *engine) answers() error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.socket())
		},
	}}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("no answer")
	for range 1200 {
		req, err := http.NewRequestWithContext(e.r.ctx, http.MethodGet, "http://engine/_ping", nil)
		if err != nil {
			return err
		}
		var res *http.Response
		if res, last = client.Do(req); last == nil {
			_ = res.Body.Close() // it is a word
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-e.ended:
			return errors.New("it ended")
		case <-e.r.ctx.Done():
			return e.r.ctx.Err()
		case <-tick.C:
		}
	}
	return last
}

// stop ends it as a check: it must leave nothing.
func (e *engine) stop() {
	e.r.check("stop "+e.kind, func(out io.Writer) error {
		var err error
		if e.kind == "podman" {
			err = e.empty(out)
		}
		e.end()
		return err
	})
}

// empty fails where containers are left, and removes them.
func (e *engine) empty(out io.Writer) error {
	left, err := e.r.output(append(e.podman(), "ps", "-aq")...)
	if err != nil || strings.TrimSpace(left) == "" {
		return err
	}
	return errors.Join(fmt.Errorf("containers left: %s", left), e.r.run(out, cmd{words: append(e.podman(), "rm", "-fa")}))
}

// end ends the daemon in 90 seconds, and removes what was its own.
func (e *engine) end() {
	if e.over {
		return
	}
	e.over = true
	_ = e.daemon.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-e.ended:
	case <-time.After(90 * time.Second):
		_ = e.daemon.Process.Kill()
		<-e.ended
	}
	mounts := reaper.Kinds["mounts"]()
	slices.Reverse(mounts)
	for _, m := range mounts {
		if _, at, _ := strings.Cut(m, " "); strings.HasPrefix(at, e.dir+"/") {
			_ = e.r.run(io.Discard, cmd{words: []string{"umount", at}, anyway: true}) // what stays is found at the end
		}
	}
	e.undo()
	if err := os.RemoveAll(e.dir); err != nil {
		e.r.say("note  %v\n", err)
	}
}
