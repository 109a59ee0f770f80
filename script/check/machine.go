package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// needs are the programs that tests call and Debian may not have, with their packages.
var needs = strings.Fields(`gh:gh vim:vim htop:htop git:git curl:curl node:nodejs npm:npm python3:python3 tmux:tmux
	gcc:gcc bwrap:bubblewrap socat:socat hyperfine:hyperfine ssh:openssh-client sshd:openssh-server ip:iproute2 ps:procps
	chromium:chromium dbus-daemon:dbus setpriv:util-linux script:bsdutils useradd:passwd pip3:python3-pip zsh:zsh fish:fish`)

// claimed is what tests may rely on here: a test that misses one of these fails.
const claimed = "gh vim htop chromium axe userns dbus git node npm go python3 tmux gcc curl bwrap ssh sshd " +
	"claude opencode codex yarn mcp aws claude-sdk openai-sdk pip websockets zsh fish postgres"

// A machine is what the checks install and make on it.
type machine struct {
	r    *runner
	name string // the ordinary user's
}

// installNeeds installs what is missing, as root on Debian.
func (m *machine) installNeeds() error {
	var missing []string
	for _, need := range needs {
		program, pkg, _ := strings.Cut(need, ":")
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	for file, pkg := range map[string]string{"/usr/include/stdio.h": "libc6-dev", "/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
		"/usr/lib/python3/dist-packages/websockets/__init__.py": "python3-websockets"} {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, pkg)
		}
	}
	if m.r.root && !m.installQuietly("pg_ctlcluster", "postgresql") {
		return errors.New("the database that the tests need is missing")
	}
	if len(missing) == 0 {
		return nil
	}
	if !m.r.root {
		return fmt.Errorf("missing: %[1]s\nhint: as root: apt-get install --no-install-recommends %[1]s", strings.Join(missing, " "))
	}
	m.r.say("installing %s\n", strings.Join(missing, " "))
	var out bytes.Buffer
	if err := m.apt(&out, missing...); err != nil {
		return fmt.Errorf("%scannot install what the tests need: %w", out.String(), err)
	}
	return nil
}

func (m *machine) apt(out io.Writer, packages ...string) error {
	quiet := []string{"DEBIAN_FRONTEND=noninteractive"}
	const wait = "DPkg::Lock::Timeout=300" // another program may just install something
	update := m.r.run(out, cmd{words: []string{"apt-get", "-qq", "-o", wait, "update"}, env: quiet})
	install := append([]string{"apt-get", "-qq", "-o", wait, "install", "-y", "--no-install-recommends"}, packages...)
	return errors.Join(update, m.r.run(out, cmd{words: install, env: quiet}))
}

// installQuietly installs a service that Debian would start, which changes packet rules.
func (m *machine) installQuietly(program, pkg string) bool {
	return m.r.check("install "+pkg, func(out io.Writer) error {
		if _, err := exec.LookPath(program); err == nil {
			return nil
		}
		const policy = "/usr/sbin/policy-rc.d"
		if _, err := os.Stat(policy); err != nil {
			if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
				return err
			}
			defer func() { _ = os.Remove(policy) }()
		}
		return m.apt(out, pkg)
	})
}

// npm installs modules into a folder, with further flags.
func (m *machine) npm(out io.Writer, prefix string, modules []string, flags ...string) error {
	if err := os.MkdirAll(prefix, 0o755); err != nil {
		return err
	}
	words := append([]string{"npm", "install", "--prefix", prefix, "--cache", filepath.Join(m.r.work, "npm-cache"),
		"--no-audit", "--no-fund", "--loglevel=error"}, flags...)
	return m.r.run(out, cmd{words: append(words, modules...)})
}

// agents installs the real agents where root and the ordinary user find them.
func (r *runner) agents() bool {
	return r.once("agents", func(out io.Writer) error {
		npm := filepath.Join(r.work, "npm") // what npm leaves in there is no test's
		if err := os.MkdirAll(npm, 0o755); err != nil {
			return err
		}
		return r.run(out, cmd{words: []string{"script/agents"}, env: []string{"TMPDIR=" + npm}})
	})
}

// h2spec installs the conformance test of HTTP/2 and returns its folder.
func (r *runner) h2spec() string {
	r.once("h2spec", func(out io.Writer) error {
		_, err := r.tool(out, "h2spec", "github.com/summerwind/h2spec/cmd/h2spec", h2spec)
		return err
	})
	return filepath.Join(r.tools, "h2spec-"+h2spec)
}

// product builds cloister as it is released.
func (r *runner) product() bool {
	return r.once("build the product", func(out io.Writer) error {
		return r.run(out, cmd{words: []string{"go", "build", "-o", r.bin + "/", "./cmd/cloister", "./cmd/cloister-fleet"}})
	})
}

// ordinary makes an ordinary user with the agents; the tests' own files come with tree.
func (m *machine) ordinary() bool {
	r := m.r
	return r.agents() && r.once("useradd", func(out io.Writer) error {
		m.name = "clt" + strconv.Itoa(os.Getpid())
		if err := r.run(out, cmd{words: []string{"useradd", "--create-home", "--home-dir", m.home(), "--shell", "/bin/sh", m.name}}); err != nil {
			return err
		}
		r.later(m.removeUser)
		agents, cache := os.Getenv("CLOISTER_AGENTS_PREFIX"), filepath.Join(m.home(), ".cache")
		script := `mkdir -p "$3/t" "$2" && cp -a "$1" "$2/cloister-agents" && chown -R "$4:" "$3"`
		err := r.run(out, cmd{words: []string{"sh", "-c", script, "sh", agents, cache, m.home(), m.name}})
		r.apart(filepath.Join(m.home(), "t"))
		return err
	})
}

// tree gives the ordinary user a copy of the tree, which tests run in.
func (m *machine) tree() bool {
	return m.ordinary() && m.r.once("copy the tree", func(out io.Writer) error {
		script := `mkdir "$1" && git ls-files -z -co --exclude-standard |
			tar -c --null --ignore-failed-read -T - | tar -x -C "$1" && chown -R "$2:" "$1"`
		return m.r.run(out, cmd{words: []string{"bash", "-o", "pipefail", "-c", script, "bash", filepath.Join(m.home(), "tree"), m.name}})
	})
}

func (m *machine) home() string { return "/home/" + m.name }

// asUser begins a command with nothing of root's: no environment, no capabilities.
func (m *machine) asUser(env []string) []string {
	return slices.Concat([]string{
		"setpriv", "--reuid=" + m.name, "--regid=" + m.name, "--init-groups", "--inh-caps=-all",
		"env", "-i", "HOME=" + m.home(), "USER=" + m.name, "LOGNAME=" + m.name, "LANG=C.UTF-8", "TERM=xterm",
		"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		"GORACE=" + lateRaces, "TMPDIR=" + m.home() + "/t", "CLOISTER_TEST_NEEDS=" + claimed, "CLOISTER_TEST_BINARY=" + filepath.Join(m.r.bin, "cloister"),
	}, env)
}

// removeUser ends what the user runs, by its numbers, and removes the account.
func (m *machine) removeUser() {
	script := `for try in $(seq 50); do
		for pid in $(ps -o pid= -u "$1"); do kill -KILL "$pid"; done
		userdel -r "$1" 2>/dev/null && exit 0
		sleep 0.2
	done
	userdel -r "$1"`
	var out bytes.Buffer
	if err := m.r.run(&out, cmd{words: []string{"sh", "-c", script, "sh", m.name}, anyway: true}); err != nil {
		m.r.say("note  remove the user: %v\n%s", err, out.String())
	}
}
