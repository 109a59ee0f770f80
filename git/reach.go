package git

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"cloister/internal/authority"
)

// Reach says which host git connects to for a remote, as the person's own
// configuration of git and ssh has it: a rewritten URL, an alias. between means
// that a proxy or a jump host looks the name up, which need not be known here.
func (d *Depots) Reach(ctx context.Context, r Remote) (at authority.Authority, between bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if said := d.ask(ctx, "git", "ls-remote", "--get-url", "--", r.URL); said != "" && said != r.URL {
		if r, err = ParseRemote(said); err != nil {
			return at, false, fmt.Errorf("your git's configuration rewrites it: %w", err)
		}
	}
	switch r.Scheme {
	case "ssh":
		return d.sshReach(ctx, r)
	case "https", "http":
		return r.At, d.proxied() || d.ask(ctx, "git", "config", "--get-urlmatch", "http.proxy", r.URL) != "", nil
	}
	return r.At, false, nil
}

// sshReach asks ssh what it makes of a name.
func (d *Depots) sshReach(ctx context.Context, r Remote) (at authority.Authority, between bool, err error) {
	at = r.At
	for line := range strings.Lines(d.ask(ctx, "ssh", "-G", "-p", fmt.Sprint(at.Port()), "--", at.Host())) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case key == "hostname":
			if at, err = authority.Parse(value, r.At.Port()); err != nil {
				return at, false, fmt.Errorf("ssh takes %s for %q: %w", r.At.Host(), value, err)
			}
		case (key == "proxyjump" || key == "proxycommand") && value != "none":
			between = true
		}
	}
	return at, between, nil
}

// proxied reports whether the environment sends curl, and so git, to a proxy.
func (d *Depots) proxied() bool {
	for _, e := range d.env {
		name, value, _ := strings.Cut(e, "=")
		switch strings.ToLower(name) {
		case "https_proxy", "http_proxy", "all_proxy":
			if value != "" {
				return true
			}
		}
	}
	return false
}

// ask runs a program that only says what it would do. One that fails says nothing.
func (d *Depots) ask(ctx context.Context, program string, args ...string) string {
	path, env, err := d.program(program)
	if err != nil {
		return ""
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Env, c.Dir = append(env, "GIT_DIR=/dev/null", "LC_ALL=C"), "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	var out capped
	c.Stdout = &out
	if c.Run() != nil {
		return ""
	}
	return strings.TrimSpace(string(bytes.TrimRight([]byte(out.String()), "\n")))
}

// Keep gives the depot the addresses that its host was found to have: git over
// HTTP asks no one again, so that no second answer leads elsewhere. ssh asks
// again; there the server's key is what holds.
func (d *Depot) Keep(at authority.Authority, addrs []netip.Addr) {
	if _, literal := at.Addr(); literal || len(addrs) == 0 || d.remote.Scheme != "https" && d.remote.Scheme != "http" {
		return
	}
	var list []string
	for _, a := range addrs {
		text := a.String()
		if a.Is6() {
			text = "[" + text + "]"
		}
		list = append(list, text)
	}
	d.kept = fmt.Sprintf("http.curloptResolve=%s:%d:%s", at.Host(), cmp.Or(at.Port(), 443), strings.Join(list, ","))
}
