package machinetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"
)

// machineFlags begin a machine as its person says it.
var machineFlags = []string{"--isolation", "microvm", "--accept", "residue:microvm-emulated", "--memory", "600MiB"}

// forever is a command that ends with its cloister.
var forever = []string{"--", "sh", "-c", "while :; do sleep 1; done"}

// TestOthers looks at machines of other starts: a worktree, a devcontainer's image, and one whose shim is killed.
func TestOthers(t *testing.T) {
	w := newWorld(t, func(*world) string { return "version: 1\nproxy: {unlisted_domain_behavior: deny, presets: []}\n" })
	w.write("home/src/project/file", "one\n")
	w.git("init", "-q", "-b", "main")
	w.git("add", ".")
	w.git("commit", "-qm", "start")
	t.Run("another kernel", func(t *testing.T) { anotherKernel(t, w) })
	t.Run("more files than may be open", func(t *testing.T) { moreFiles(t, w) })
	t.Run("worktree", func(t *testing.T) { worktree(t, w) })
	t.Run("devcontainer", func(t *testing.T) { devcontainer(t, w) })
	t.Run("shim killed", func(t *testing.T) { shimKilled(t, w) })
}

// anotherKernel: a file of those that are booted, of which a byte is another, is none: the start is refused, or, where it
// is the initrd, that is made anew. The controls are the starts after it.
func anotherKernel(t *testing.T, w *world) {
	at := filepath.Join(w.dir, "data/cloister/microvm")
	text, err := os.ReadFile(filepath.Join(at, "kernel.json"))
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		Image   string
		Modules []struct{ Digest string }
	}
	if err := json.Unmarshal(text, &k); err != nil || len(k.Modules) == 0 {
		t.Fatalf("%s, %v", text, err)
	}
	flip := func(name string) (back func()) {
		file := filepath.Join(at, name)
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		other := slices.Clone(was)
		other[len(other)/2] ^= 1
		if err := os.WriteFile(file, other, 0o600); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(file, was, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	back := flip(k.Image)
	_, errs, status := w.try(slices.Concat([]string{"run"}, machineFlags, []string{"--", "true"})...)
	if status != 125 || !strings.Contains(errs, "its digest is another") || !strings.Contains(errs, "hint: ") {
		t.Errorf("another kernel: %d, %s", status, errs)
	}
	back()
	list, err := filepath.Glob(at + "/*")
	if err != nil {
		t.Fatal(err)
	}
	initrd := "" // the largest file
	var most int64
	for _, name := range list {
		if fi, err := os.Stat(name); err == nil && fi.Size() > most {
			initrd, most = filepath.Base(name), fi.Size()
		}
	}
	flip(initrd)
	if out := w.must(slices.Concat([]string{"run"}, machineFlags, []string{"--", "echo", "booted"})...); out != "booted\n" {
		t.Errorf("%q", out)
	}
	mended, err := os.ReadFile(filepath.Join(at, initrd))
	if sum := sha256.Sum256(mended); err != nil || hex.EncodeToString(sum[:]) != initrd {
		t.Errorf("the initrd is still another: %x, %v", sum, err)
	}
}

// moreFiles: the server of files has one open for each that the guest has seen, up to the hard limit of whoever starts it. A
// project that has more is read whole all the same. The soft limit is no bound: on most machines it is 1,024.
func moreFiles(t *testing.T, w *world) {
	const files = 1600
	dir := filepath.Join(w.project, "many")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for n := range files {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for limit, within := range map[string]string{"ulimit -n 1300": "the hard limit", "ulimit -Sn 512": "the soft limit"} {
		c := exec.CommandContext(t.Context(), "sh", append([]string{"-c", limit + `; exec "$@"`, "sh"},
			slices.Concat([]string{binary, "run"}, machineFlags, []string{"--", "sh", "-c", "cat many/* | wc -l; ls -l many | wc -l"})...)...)
		c.Dir, c.Env = w.project, w.env
		out, err := c.CombinedOutput()
		if err != nil || string(out) != fmt.Sprintf("%d\n%d\n", files, files+1) {
			t.Errorf("%d files, and %s of %s: %q, %v", files, within, limit, out, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// git runs the host's git in the project.
func (w *world) git(words ...string) string {
	w.t.Helper()
	c := exec.CommandContext(w.t.Context(), "git", words...)
	c.Dir, c.Env = w.project, append(slices.Clone(w.env), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.example", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@b.example")
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %q: %v: %s", words, err, out)
	}
	return string(out)
}

// worktree: a branch in a tree of its own is worked on in a machine, and the project's own is as it was.
func worktree(t *testing.T, w *world) {
	const script = "git rev-parse --abbrev-ref HEAD && echo two >>file && echo new >new && git add -A && " +
		"git -c user.name=a -c user.email=a@b.example commit -qm inside && git status --porcelain && " +
		"{ echo x >.git; } 2>/dev/null; mkdir -p .git/hooks 2>/dev/null; true"
	out := w.must(slices.Concat([]string{"run", "-b", "topic"}, machineFlags, []string{"--", "sh", "-c", script})...)
	if out != "topic\n" {
		t.Errorf("%q", out)
	}
	if text, err := os.ReadFile(filepath.Join(w.project, "file")); err != nil || string(text) != "one\n" {
		t.Errorf("the project's own tree: %q, %v", text, err)
	}
	if got := w.git("log", "-1", "--format=%s", "topic") + w.git("show", "topic:file") + w.git("rev-parse", "--abbrev-ref", "HEAD"); got != "inside\none\ntwo\nmain\n" {
		t.Errorf("the branch: %q", got)
	}
}

// devcontainer: root runs a project in the image of its devcontainer, whose system is a machine's.
func devcontainer(t *testing.T, w *world) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for at, text := range map[string]string{"bin/busybox": string(program), "etc/image-says": "hello from the image\n",
		"etc/passwd": "root:x:0:0::/:/bin/sh\n"} {
		at = filepath.Join(dir, at)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "id", "cat", "uname", "ls", "touch", "sleep", "env", "grep"} {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: "amd64", OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Env: []string{"PATH=/bin", "FROM_IMAGE=image"}}})
	if err == nil {
		img, err = mutate.AppendLayers(img, layerOf(t, dir, nil))
	}
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference("registry.example/team/env:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(filepath.Join(w.dir, "env.tar"), ref, img); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(w.must("image", "pull", w.dir+"/env.tar"))
	w.write("home/src/project/.devcontainer/devcontainer.json", fmt.Sprintf(`{"image": %q, "containerEnv": {"GREETING": "of the file"},
  "postCreateCommand": "echo created >created"}`, id))
	w.must("devcontainer", "trust")
	const script = "id -u; cat /etc/image-says created; echo $GREETING $FROM_IMAGE; uname -r; touch made; ls /usr/bin /root 2>/dev/null; " +
		"{ echo x >.devcontainer/devcontainer.json; } 2>/dev/null && echo written; { echo x >/etc/image-says; } 2>/dev/null && echo changed; true"
	out := w.must(slices.Concat([]string{"run", "--devcontainer"}, machineFlags, []string{"--", "sh", "-c", script})...)
	own, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 5 || lines[0] == "0" || !slices.Equal(lines[1:4], []string{"hello from the image", "created", "of the file image"}) ||
		lines[4] == strings.TrimSpace(string(own)) {
		t.Errorf("%q", lines)
	}
	fi, err := os.Stat(filepath.Join(w.project, "made"))
	if err != nil || fi.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		t.Errorf("what is made inside: %v, %v", fi, err)
	}
}

// shimKilled: a machine whose shim is killed leaves no process, also where the guardian was killed before it.
func shimKilled(t *testing.T, w *world) {
	w.must(slices.Concat([]string{"run", "-d", "--name", "k"}, machineFlags, forever)...)
	if out, status := w.sh("k", "echo up"); status != 0 || out != "up\n" {
		t.Fatalf("%d, %q", status, out)
	}
	// What takes more memory than there is ends in the guest, and nothing else does.
	out, _ := w.sh("k", "head -c 2000000000 /dev/zero | tail -c 1999999999 >/dev/null; echo status $?; echo alive")
	if !strings.HasSuffix(out, "status 137\nalive\n") {
		t.Errorf("without memory: %q", out)
	}
	shim := w.process("cloister shim")
	below := descendants(t, shim)
	if len(below) < 4 { // the box's first process, the monitor, virtiofsd, QEMU
		t.Fatalf("below the shim are %v", below)
	}
	for _, pid := range []int{w.process("cloister guardian"), shim} {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("nothing is left of the machine", func() bool {
		return !slices.ContainsFunc(below, func(pid int) bool { return unix.Kill(pid, 0) == nil })
	})
	// The next guardian knows that it is gone.
	w.eventually("it is no cloister any more", func() bool {
		out, _, status := w.try("ls")
		return status == 0 && !strings.Contains(out, "running")
	})
}

// process is the one of this person's that is called so.
func (w *world) process(called string) int {
	w.t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, at := range list {
		words, _ := os.ReadFile(at + "/cmdline")
		env, _ := os.ReadFile(at + "/environ")
		text := strings.ReplaceAll(string(words), "\x00", " ")
		if strings.HasPrefix(text, called) && strings.Contains(string(env), "XDG_RUNTIME_DIR="+w.dir+"/") {
			pid, _ := strconv.Atoi(filepath.Base(at))
			return pid
		}
	}
	w.t.Fatalf("no process is called %s", called)
	return 0
}

// descendants are all processes below one.
func descendants(t *testing.T, of int) (all []int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	below := map[int][]int{}
	for _, at := range list {
		text, err := os.ReadFile(at)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		words := strings.Fields(rest)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(at)))
		if len(words) > 1 {
			parent, _ := strconv.Atoi(words[1])
			below[parent] = append(below[parent], pid)
		}
	}
	for next := below[of]; len(next) > 0; {
		all = append(all, next...)
		var after []int
		for _, pid := range next {
			after = append(after, below[pid]...)
		}
		next = after
	}
	return all
}
