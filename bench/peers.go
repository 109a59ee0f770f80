package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloister/bench/dressed"
	"cloister/bench/install"
)

// The pinned peers that no distribution has in a version of today.
const (
	srtPackage = "@anthropic-ai/sandbox-runtime@0.0.78"
	runscPin   = "gvisor.dev/gvisor/runsc@v0.0.0-20260905035102-160fafc42237"
	// gvisorName is the kernel's program of the gvisor level: no peer, but found and built like one.
	gvisorName = "cloister-gvisor"
	// peerDir is where they are installed, readable for every user.
	peerDir = "/var/cache/cloister-bench"
)

// peer is a program that is there.
type peer struct{ path, version string }

// wanted is how a peer is found and installed.
type wanted struct {
	name    string
	paths   []string
	version []string
	install []string // as root
	env     []string
}

func peersWanted() []wanted {
	apt := func(names ...string) []string {
		return append([]string{"apt-get", "-qq", "install", "-y", "--no-install-recommends"}, names...)
	}
	return []wanted{
		{name: "bwrap", paths: []string{"bwrap"}, version: []string{"--version"}, install: apt("bubblewrap")},
		{name: "docker", paths: []string{"/usr/bin/docker", "docker"}, version: []string{"--version"}, install: apt("docker.io", "iptables")},
		{name: "srt", paths: []string{peerDir + "/npm/node_modules/.bin/srt", "srt"}, version: []string{"--version"},
			install: []string{"sh", "-c", "apt-get -qq install -y --no-install-recommends nodejs npm socat ripgrep bubblewrap && npm install --prefix " + peerDir + "/npm --no-audit --no-fund " + srtPackage}},
		{name: "runsc do", paths: []string{peerDir + "/bin/runsc", "runsc"}, version: []string{"--version"},
			install: []string{"go", "install", runscPin}, env: []string{"CGO_ENABLED=0", "GOFLAGS=", "GOBIN=" + peerDir + "/bin"}},
		{name: gvisorName, paths: []string{peerDir + "/cloister/gvisor/" + gvisorName, gvisorName}, version: []string{"version"},
			install: []string{"go", "run", "./cmd/cloister", "setup", "gvisor"}, env: []string{"XDG_DATA_HOME=" + peerDir}},
		{name: "squid", paths: []string{"squid", "/usr/sbin/squid"}, version: []string{"-v"}, install: apt("squid-openssl")},
		{name: "mitmproxy", paths: []string{"mitmdump"}, version: []string{"--version"}, install: apt("mitmproxy")},
		{name: "tinyproxy", paths: []string{"tinyproxy", "/usr/bin/tinyproxy"}, version: []string{"-v"}, install: apt("tinyproxy")},
	}
}

func peerNames() []string {
	var out []string
	for _, w := range peersWanted() {
		out = append(out, w.name)
	}
	return out
}

// findPeers looks for each, and installs what is missing if it may. What is
// still missing is said, and no figure stands in for it.
func (w *world) findPeers(ctx context.Context, may bool) error {
	for _, p := range peersWanted() {
		found, why := w.findPeer(ctx, p)
		if why != "" && may && !w.short {
			fmt.Fprintln(os.Stderr, "installing", p.name)
			if err := install.Run(ctx, p.install, p.env); err != nil {
				why = "missing: " + err.Error()
			} else {
				found, why = w.findPeer(ctx, p)
			}
		}
		if why != "" {
			w.raw.Peers[p.name] = why
			continue
		}
		w.peers[p.name] = found
		w.raw.Peers[p.name] = found.version
	}
	return ctx.Err()
}

var versionNumber = regexp.MustCompile(`[0-9]+\.[0-9][0-9A-Za-z.+~-]*`)

func (w *world) findPeer(ctx context.Context, p wanted) (found peer, why string) {
	for _, path := range p.paths {
		full, err := exec.LookPath(path)
		if err != nil {
			continue
		}
		out, err := w.in(ctx, full, p.version...).CombinedOutput()
		if err != nil {
			return peer{}, "does not run here: " + strings.TrimSpace(err.Error())
		}
		version := versionNumber.FindString(string(out))
		if version == "" {
			version = strings.TrimSpace(strings.SplitN(string(out), "\n", 2)[0])
		}
		return peer{full, version}, ""
	}
	return peer{}, "not installed here"
}

// daemon starts a program that is ended at the world's close.
func (w *world) daemon(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(w.dir, filepath.Base(name)+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd := w.in(context.WithoutCancel(ctx), name, args...)
	cmd.SysProcAttr = apart()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	w.running = append(w.running, cmd)
	return cmd, nil
}

// until waits for a condition, looking 20 times a second.
func until(ctx context.Context, within time.Duration, ok func() bool) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(within)
	for !ok() {
		select {
		case <-ctx.Done():
			return false
		case <-end:
			return false
		case <-tick.C:
		}
	}
	return true
}

// docker gives the words before "run": a daemon that runs already, or one of
// our own without a bridge, so that no interface and no firewall rule appears
// on the host.
func (w *world) docker(ctx context.Context, image string) ([]string, error) {
	p := w.peers["docker"]
	words := []string{p.path}
	if err := w.in(ctx, p.path, "info").Run(); err != nil {
		if os.Getuid() != 0 {
			return nil, errors.New("no daemon that this user may reach")
		}
		dir := filepath.Join(w.dir, "docker")
		socket := "unix://" + filepath.Join(dir, "s")
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			_, err = w.daemon(ctx, "dockerd", "--host", socket, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
				"--pidfile", filepath.Join(dir, "pid"), "--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")
		}
		if err != nil && !errors.Is(err, fs.ErrExist) { // it runs for another subject already
			return nil, err
		}
		words = append(words, "--host", socket)
		if !until(ctx, 30*time.Second, func() bool { return w.in(ctx, words[0], append(words[1:3:3], "info")...).Run() == nil }) {
			return nil, errors.New("dockerd does not answer within 30 s")
		}
	}
	text, err := dressed.Image(ctx, "true", "sleep", "/bin/sh")
	if err != nil {
		return nil, err
	}
	cmd := w.in(ctx, words[0], append(slices.Clone(words[1:]), "import", "-", image)...)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("import the image: %w: %s", err, out)
	}
	return words, nil
}
