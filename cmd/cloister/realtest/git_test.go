package realtest

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http/cgi"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// gitServer makes a bare repository with a history and gives the folder that
// holds it.
func (w *world) gitServer() string {
	w.t.Helper()
	root := w.folder("git")
	big := make([]byte, 3<<20) // does not compress: what a clone carries
	if _, err := rand.Read(big); err != nil {
		w.t.Fatal(err)
	}
	seed := w.folder("seed")
	w.write(seed, "README.md", "# The library\n")
	w.write(seed, "big.bin", string(big))
	w.host("sh", "-euc", fmt.Sprintf("cd %s; git init -q; git add .; git commit -qm first; git tag v1; echo more >>README.md; git commit -qam second; git clone -q --bare . %s/library.git", seed, root))
	w.host("git", "-C", filepath.Join(root, "library.git"), "config", "http.receivepack", "true")
	return root
}

func TestGitOverHTTPS(t *testing.T) {
	w := newWorld(t)
	root := w.gitServer()
	backend := filepath.Join(strings.TrimSpace(w.host("git", "--exec-path")), "git-http-backend")
	need(t, "git", backend)
	w.net.handle("git.example.com", &cgi.Handler{
		Path: backend, Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.home, "PATH=" + w.env["PATH"]},
	})
	w.script(`
git clone -q https://git.example.com/library.git
cd library
test "$(git log --format=%s | tr '\n' ' ')" = "second first "
git fsck --strict
git checkout -qb mine
echo change >>README.md
git commit -qam third
git push -q origin mine
git fetch -q origin
test "$(git rev-parse mine)" = "$(git rev-parse origin/mine)"
cd ..
git clone -q --depth 1 --branch v1 https://git.example.com/library.git shallow
test "$(git -C shallow rev-list --count HEAD)" = 1
`)
	if got, want := w.host("git", "-C", filepath.Join(root, "library.git"), "log", "-1", "--format=%s|%an", "mine"), "third|Ada Person\n"; got != want {
		t.Errorf("the server has %q, want %q", got, want)
	}
	if got, want := read(t, filepath.Join(w.project, "library/big.bin")), read(t, filepath.Join(w.dir, "seed/big.bin")); got != want {
		t.Error("big.bin differs")
	}
	res := w.run("git", "clone", "-q", "https://other.example.com/library.git", "other")
	if res.status != 128 || !strings.Contains(res.stderr, "Could not resolve host: other.example.com") {
		t.Errorf("clone from a name that no rule allows: status %d: %s", res.status, res.stderr)
	}
}

// TestGitOverSSH is any TCP by name: nothing in SSH tells the gate a name, the
// address does that was given for it.
func TestGitOverSSH(t *testing.T) {
	w := newWorld(t)
	root := w.gitServer()
	etc, addr, me := w.sshd()

	// A deploy key, which the person put into the project for the agent.
	w.write(w.project, "deploy/known_hosts", "git.example.com "+read(t, filepath.Join(etc, "host.pub")))
	write(t, filepath.Join(w.project, "deploy/key"), read(t, filepath.Join(etc, "client")), 0o600)
	w.net.forward("git.example.com", addr)
	command := fmt.Sprintf(`export GIT_SSH_COMMAND="ssh -i $PWD/deploy/key -o IdentitiesOnly=yes -o UserKnownHostsFile=$PWD/deploy/known_hosts"
git clone -q ssh://%s@git.example.com%s/library.git
cd library && test "$(git log --format=%%s | tr '\n' ' ')" = "second first " && git fsck --strict
git commit -q --allow-empty -m third && git push -q origin HEAD:mine`, me, root)

	res := w.run("sh", "-euc", command)
	if res.status == 0 || !strings.Contains(res.stderr, "cloister: refused git.example.com:22") {
		t.Errorf("port 22 without a rule: status %d: %s", res.status, res.stderr)
	}
	w.allow = append(w.allow, "{domain: git.example.com, ports: [22]}")
	w.reload()
	w.script(command)
	if got, want := w.host("git", "-C", filepath.Join(root, "library.git"), "log", "-1", "--format=%s", "mine"), "third\n"; got != want {
		t.Errorf("the server has %q, want %q", got, want)
	}
}

// separation counts the servers that use the folder of all.
var separation struct {
	sync.Mutex
	made  bool
	users int
}

// separate makes the folder where sshd, as root, keeps its unprivileged half, until
// the last test that needs it ends.
func separate(t *testing.T) {
	const folder = "/run/sshd"
	separation.Lock()
	defer separation.Unlock()
	separation.made = os.Mkdir(folder, 0o755) == nil || separation.made
	separation.users++
	t.Cleanup(func() {
		separation.Lock()
		defer separation.Unlock()
		if separation.users--; separation.users == 0 && separation.made {
			separation.made = false
			_ = os.Remove(folder)
		}
	})
}

// sshd starts the real one on loopback, with a host key and a client's in the folder
// that it gives, for the user who runs the tests.
func (w *world) sshd() (etc, addr, me string) {
	t := w.t
	t.Helper()
	need(t, "ssh", "ssh")
	keygen := need(t, "ssh", "ssh-keygen")
	sshd := need(t, "sshd", "/usr/sbin/sshd")
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	etc = w.folder("sshd")
	for _, key := range []string{"host", "client"} {
		w.host(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(etc, key))
	}
	if os.Geteuid() == 0 {
		separate(t)
	}
	addr = freePort(t)
	w.write(etc, "config", fmt.Sprintf(`ListenAddress %s
HostKey %s/host
AuthorizedKeysFile %s/client.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
`, addr, etc, etc))
	c := exec.CommandContext(t.Context(), sshd, "-D", "-e", "-f", filepath.Join(etc, "config"))
	log := &strings.Builder{}
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", log)
		}
	})
	waitFor(t, "sshd", func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return etc, addr, who.Username
}
