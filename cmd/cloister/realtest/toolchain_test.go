package realtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// copyFile copies a program.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, read(t, from), 0o755)
}

// TestToolchainsOfTheHome are programs that a person installed below their home:
// they run inside by PATH alone, and nothing inside can change them.
func TestToolchainsOfTheHome(t *testing.T) {
	w := newWorld(t)
	node := need(t, "node", "node")
	goProgram := need(t, "go", "go")

	nvm := filepath.Join(w.home, ".nvm/versions/node/v20.0.0")
	copyFile(t, node, filepath.Join(nvm, "bin/node"))
	w.write(nvm, "lib/node_modules/shout/package.json", `{"name":"shout","version":"1.0.0","bin":{"shout":"cli.js"}}`)
	write(t, filepath.Join(nvm, "lib/node_modules/shout/cli.js"), "#!/usr/bin/env node\nconsole.log('shout from', process.execPath)\n", 0o755)
	link(t, "../lib/node_modules/shout/cli.js", filepath.Join(nvm, "bin/shout"))
	w.write(w.home, ".npmrc", "//npm.example.com/:_authToken=the-token\n")

	sdk := filepath.Join(w.home, "sdk/go1.26")
	copyFile(t, goProgram, filepath.Join(sdk, "bin/go"))
	copyFile(t, filepath.Join(goRoot(t, goProgram), "VERSION"), filepath.Join(sdk, "VERSION"))
	w.write(sdk, "pkg/tool/here", "")

	// A GOPATH, whose bin holds a program of its own.
	write(t, filepath.Join(w.home, "go/bin/mytool"), "#!/bin/sh\necho mytool from \"$0\"\n", 0o755)

	// pyenv: shims that call pyenv, which looks for itself.
	pyenv := filepath.Join(w.home, ".pyenv")
	shim := "#!/bin/sh\nexport PYENV_ROOT=" + pyenv + "\nexec " + pyenv + "/bin/pyenv exec \"${0##*/}\" \"$@\"\n"
	write(t, filepath.Join(pyenv, "shims/snake"), shim, 0o755)
	write(t, filepath.Join(pyenv, "bin/pyenv"), "#!/bin/sh\nshift\np=$1; shift\nexec \"$PYENV_ROOT/versions/3.99/bin/$p\" \"$@\"\n", 0o755)
	write(t, filepath.Join(pyenv, "versions/3.99/bin/snake"), "#!/bin/sh\necho snake 3.99\n", 0o755)

	// cargo: proxies that find the toolchain in ~/.rustup through HOME.
	write(t, filepath.Join(w.home, ".cargo/bin/cargo"), "#!/bin/sh\nexec \"${RUSTUP_HOME:-$HOME/.rustup}/toolchains/stable/bin/cargo\" \"$@\"\n", 0o755)
	write(t, filepath.Join(w.home, ".rustup/toolchains/stable/bin/cargo"), "#!/bin/sh\necho cargo 1.99\n", 0o755)
	w.write(w.home, ".cargo/credentials.toml", "token = 'secret'\n")

	w.env["PATH"] = strings.Join([]string{
		nvm + "/bin", sdk + "/bin", w.home + "/go/bin", pyenv + "/shims", pyenv + "/bin", w.home + "/.cargo/bin", "/usr/bin", "/bin",
	}, ":")
	res := w.script(`
node -p 'process.execPath'
shout
go env GOROOT
mytool
snake
cargo --version
for f in $(command -v node) $(command -v go) $(command -v mytool) $(command -v snake) $(command -v cargo); do
	if echo x 2>/dev/null >>"$f"; then echo "WRITTEN $f"; fi
	if rm -f "$f" 2>/dev/null; then echo "REMOVED $f"; fi
	if touch "$(dirname "$f")/planted" 2>/dev/null; then echo "PLANTED beside $f"; fi
done
cat ~/.npmrc ~/.cargo/credentials.toml ~/.ssh/id_ed25519 2>&1 || true
# The home itself is the agent's own.
echo mine >~/notes && cat ~/notes
`)
	want := strings.Join([]string{
		nvm + "/bin/node", "shout from " + nvm + "/bin/node", sdk, "mytool from " + w.home + "/go/bin/mytool", "snake 3.99", "cargo 1.99",
	}, "\n")
	if !strings.HasPrefix(res.stdout, want) {
		t.Errorf("inside:\n%s\nwant:\n%s\nstderr: %s", res.stdout, want, res.stderr)
	}
	for _, word := range []string{"WRITTEN", "REMOVED", "PLANTED", "the-token", "secret", "the person's key"} {
		if strings.Contains(res.stdout, word) {
			t.Errorf("inside: %q tells %q", res.stdout, word)
		}
	}
	if _, err := os.Stat(filepath.Join(w.home, "notes")); err == nil {
		t.Error("the agent wrote into the person's home")
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func goRoot(t *testing.T, program string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(real))
}

// own is a world with the real home of whoever runs the test, for the
// toolchains that are really there.
func ownHome(t *testing.T) *world {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skipf("need home: %v", err)
	}
	w := newWorld(t)
	w.env["HOME"] = home
	return w
}

func TestRealCargo(t *testing.T) {
	w := ownHome(t)
	cargo := need(t, "cargo", filepath.Join(w.env["HOME"], ".cargo/bin/cargo"))
	need(t, "cargo", "cc")
	w.env["PATH"] = filepath.Dir(cargo) + ":" + w.env["PATH"]
	w.write(w.project, "Cargo.toml", "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
	w.write(w.project, "src/main.rs", "fn main() { println!(\"hello from rust\"); }\n")
	res := w.must("cargo", "run", "--quiet", "--offline")
	if res.stdout != "hello from rust\n" {
		t.Errorf("cargo run said %q; stderr: %s", res.stdout, res.stderr)
	}
}

// TestRealPyenv installs packages of an index with the Python of a pyenv.
func TestRealPyenv(t *testing.T) {
	w := ownHome(t)
	python := need(t, "pyenv", filepath.Join(w.env["HOME"], ".pyenv/shims/python3"))
	w.env["PATH"] = filepath.Dir(python) + ":" + filepath.Join(w.env["HOME"], ".pyenv/bin") + ":" + w.env["PATH"]
	w.net.handle(pyHost, pyIndex(t))
	w.args = []string{"-e", "PIP_INDEX_URL=https://" + pyHost + "/simple", "-e", "PIP_DISABLE_PIP_VERSION_CHECK=1"}
	res := w.script(`
python3 -m venv .venv
.venv/bin/pip install --quiet shouter
.venv/bin/python -c 'import shouter; print(shouter.shout("hello"))'
`)
	if res.stdout != "HELLO!\n" {
		t.Errorf("python said %q; stderr: %s", res.stdout, res.stderr)
	}
}
