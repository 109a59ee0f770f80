package realtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// onFullDisk runs a shell script whose folder $DISK is a disk of its own, of that size,
// and of which nobody else sees anything.
func (w *world) onFullDisk(disk, size, script string, args ...string) string {
	w.t.Helper()
	words := []string{"unshare", "--mount", "--propagation", "private"}
	person := []string{}
	if uid := os.Getuid(); uid != 0 { // root of a namespace mounts, and the person is themselves again
		words = append(words, "--map-root-user")
		person = []string{"unshare", "--user", "--map-user=" + strconv.Itoa(uid), "--map-group=" + strconv.Itoa(os.Getgid())}
	}
	words = append(words, "sh", "-euc", `mount -t tmpfs -o mode=0777,size="$1" tmpfs "$DISK"; shift; exec "$@"`, "sh", size)
	words = append(append(words, person...), "sh", "-euc", script, "sh")
	c := exec.CommandContext(w.t.Context(), words[0], append(words[1:], args...)...)
	c.Dir, c.Env = w.project, append(w.environ(), "DISK="+disk)
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestSetupOnFullDisk is a person whose disk is full when they set up an agent: they are
// told where and what to do, nothing is half there, and the same works once there is room.
func TestSetupOnFullDisk(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "key", canaryKey+"\n")
	w.ran = true
	const script = `
		if dd if=/dev/zero of="$DISK/fill" bs=4k 2>/dev/null; then echo NOT FULL; fi
		if "$1" setup claude --no-try <"$2"; then echo NOT REFUSED; fi
		if [ -e "$DISK/cloister/config.yaml" ]; then echo HALF THERE; fi
		rm "$DISK/fill"
		"$1" setup claude --no-try <"$2"
		"$1" secret list
		"$1" guardian stop`
	out := w.onFullDisk(w.env["XDG_CONFIG_HOME"], "64k", script, binary, filepath.Join(w.dir, "key"))
	for _, want := range []string{
		"bind ANTHROPIC_API_KEY: write ", "no space left on device\nhint: make room on that disk, then the same again\n",
		"config.yaml: secrets has a line more\n", "ANTHROPIC_API_KEY  stored",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q: %s", want, out)
		}
	}
	for _, bad := range []string{"NOT FULL", "NOT REFUSED", "HALF THERE", canaryKey} {
		if strings.Contains(out, bad) {
			t.Errorf("with %q: %s", bad, out)
		}
	}
}

// TestSetupsAtOnce is a person who sets up three agents in three terminals: each is
// bound, whichever was first.
func TestSetupsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.ran = true
	agents := map[string]string{"claude": canaryKey, "codex": canaryOpenAI, "gemini": "AIzaCanaryGeminiCanaryGeminiCanaryGem12"}
	type ended struct {
		name, out string
		err       error
	}
	done := make(chan ended)
	for name, key := range agents {
		go func() {
			c := exec.CommandContext(t.Context(), binary, "setup", name, "--no-try")
			c.Dir, c.Env, c.Stdin = w.project, w.environ(), strings.NewReader(key+"\n")
			out, err := c.CombinedOutput()
			done <- ended{name, string(out), err}
		}()
	}
	for range agents {
		if e := <-done; e.err != nil {
			t.Errorf("setup %s: %v\n%s", e.name, e.err, e.out)
		}
	}
	text := read(t, filepath.Join(w.env["XDG_CONFIG_HOME"], "cloister/config.yaml"))
	for _, host := range []string{"api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"} {
		if strings.Count(text, host) != 1 {
			t.Errorf("a credential is not bound to %s:\n%s", host, text)
		}
	}
}

// release makes one of a version in a folder: a program that prints it, of about that
// many bytes, and what is installed beside it.
func (w *world) release(version string, size int) string {
	w.t.Helper()
	dir := w.folder("release-" + version)
	name := "cloister_" + version + "_linux_amd64"
	w.write(dir, name+"/cloister", "#!/bin/sh\necho cloister "+version+"; exit\n"+strings.Repeat("x", size)+"\n")
	for _, f := range []string{"man/cloister.1.gz", "completions/cloister.bash", "completions/_cloister", "completions/cloister.fish"} {
		w.write(dir, name+"/"+f, version+"\n")
	}
	c := exec.CommandContext(w.t.Context(), "sh", "-euc", `n=cloister_$1_linux_$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
		[ "$2" = "$n" ] || mv "$2" "$n"
		tar -czf "$n.tar.gz" "$n" && sha256sum "$n.tar.gz" >SHA256SUMS`, "sh", version, name)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestInstallsAtOnce has many installations of two versions work at the same time: what is
// there in the end is one of them, whole, and nothing beside it.
func TestInstallsAtOnce(t *testing.T) {
	w := newWorld(t)
	installer, err := filepath.Abs("../../../script/install")
	if err != nil {
		t.Fatal(err)
	}
	releases := []string{w.release("1.0.0", 4<<20), w.release("2.0.0", 5<<20)}
	prefix := filepath.Join(w.dir, "prefix")
	install := func(from string) ([]byte, error) {
		c := exec.CommandContext(t.Context(), "sh", installer, "--from", from, "--prefix", prefix)
		c.Env = w.environ()
		return c.CombinedOutput()
	}
	done := make(chan error)
	const times = 8
	for i := range times {
		go func() {
			out, err := install(releases[i%2])
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			done <- err
		}()
	}
	for range times {
		<-done
	}
	got := w.host(filepath.Join(prefix, "bin/cloister"), "version")
	size := len(read(t, filepath.Join(prefix, "bin/cloister")))
	if got == "cloister 1.0.0\n" && size > 5<<20 || got == "cloister 2.0.0\n" && size < 5<<20 || !strings.HasPrefix(got, "cloister ") {
		t.Errorf("the program says %q and has %d bytes", got, size)
	}
	if left := w.host("sh", "-c", "ls -A "+prefix+" "+prefix+"/bin"); strings.Contains(left, ".cloister") {
		t.Errorf("left behind: %s", left)
	}
	out, err := install(filepath.Join(w.dir, "nothing"))
	if again := w.host(filepath.Join(prefix, "bin/cloister")); err == nil || again != got {
		t.Errorf("an installation of nothing: %v: %s; then the program says %q", err, out, again)
	}
}

// TestUpgradeOnFullDisk: the version that is there stays, whole, and the installer says so.
func TestUpgradeOnFullDisk(t *testing.T) {
	w := newWorld(t)
	installer, err := filepath.Abs("../../../script/install")
	if err != nil {
		t.Fatal(err)
	}
	small, large := w.release("1.0.0", 1<<10), w.release("2.0.0", 4<<20)
	out := w.onFullDisk(w.folder("disk"), "1m", `
		sh "$1" --from "$2" --prefix "$DISK"
		if sh "$1" --from "$3" --prefix "$DISK"; then echo NOT REFUSED; fi
		"$DISK/bin/cloister" version
		cat "$DISK/share/man/man1/cloister.1.gz" "$DISK/share/zsh/site-functions/_cloister"
		echo "left: $(ls -A "$DISK") $(ls -A "$DISK/bin")"`, installer, small, large)
	for _, want := range []string{"could not be written: what was there stays\n", "cloister 1.0.0\n1.0.0\n1.0.0\n", "left: bin\nshare cloister\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q: %s", want, out)
		}
	}
	if strings.Contains(out, "NOT REFUSED") || strings.Contains(out, "cloister 2.0.0") {
		t.Errorf("it was installed: %s", out)
	}
}
