package heldpath_test

import (
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"cloister/sandbox"
	"cloister/session/heldpath"
	"cloister/workspace/stubs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func guest(paths ...string) sandbox.GuestPath { return sandbox.GuestPath(filepath.Join(paths...)) }

func words(root string, o heldpath.Options) *heldpath.Words {
	o.Root, o.Dir = root, root
	o.Allow = func(flag string) string { return "cloister run " + flag + " -- CMD" }
	return heldpath.New([]sandbox.Protect{
		{Target: guest(root, ".git"), Pin: true},
		{Target: guest(root, ".git/config"), File: true},
		{Target: guest(root, ".git/hooks")},
		{Target: guest(root, ".envrc"), File: true},
		{Target: guest(root, ".github/workflows"), Empty: true, Yields: true},
		{Target: guest(root, "secret"), Empty: true},
	}, []stubs.Stub{{Root: root, Rel: ".envrc"}, {Root: root, Rel: ".github/workflows"}}, o)
}

func inLines() bool  { return true }
func asScreen() bool { return false }

// TestErrors has errors as programs print them at protected paths.
func TestErrors(t *testing.T) {
	const config = ".git/config is protected, since programs of the host obey it: change it on the host, or allow it: " +
		"cloister run --expose .git/config:rw -- CMD (cloister review shows what changed)"
	for _, c := range []struct{ name, text, want string }{
		{"git remote", "error: could not write config file /p/.git/config: Device or resource busy\r\nfatal: could not set 'remote.o.url'\r\n", config},
		{"git in a folder below", "error: could not write config file ../../.git/config: Device or resource busy\r\n", config},
		{"a shell", "sh: 1: cannot create .git/hooks/post-commit: Read-only file system\r\n", "--expose .git/hooks:rw"},
		{"an absent file", "bash: .envrc: Read-only file system\r\n", "touch .envrc && cloister run --expose .envrc:rw -- CMD"},
		{"an absent folder", "cp: cannot create regular file '.github/workflows/ci.yml': Read-only file system\r\n", "mkdir -p .github/workflows && cloister"},
		{"node", "Error: EROFS: read-only file system, open '/p/.git/hooks/x'\r\n", ".git/hooks is protected"},
		{"node renames", "EBUSY: resource busy or locked, rename '/p/a' -> '/p/.git/config'\r\n", config},
		{"python", "OSError: [Errno 30] Read-only file system: '.envrc'\r\n", ".envrc is protected"},
		{"vim", "\x1b[24;1H\".envrc\" E212: Can't open file for writing\r\n", ".envrc is protected"},
		{"colours", "\x1b[31merror\x1b[0m: .git/\x1b[1mconfig\x1b[0m: Device or resource busy\r\n", config},
		{"by the alias", "touch: cannot touch '/work/.envrc': Read-only file system\r\n", ".envrc is protected"},
		{"the folder that cannot be moved", "mv: cannot move '.git' to '.old': Device or resource busy\r\n", ".git stays where it is"},
		{"hidden", "sh: cannot create /p/secret/x: Read-only file system\r\n", "secret is hidden in this cloister"},
		{"another path", "touch: cannot touch '/usr/x': Read-only file system\r\n", ""},
		{"another error", "sh: .git/config: Permission denied\r\n", ""},
		{"a plain name", "touch: cannot touch 'config': Read-only file system\r\n", ""},
		{"a line that goes on", "error: .git/config: Device or resource busy", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := words("/p", heldpath.Options{})
			at, say := w.Heard([]byte(c.text+"$ "), inLines)
			if c.want == "" {
				if len(say) != 0 || len(w.Left()) != 0 {
					t.Fatalf("said %q", say)
				}
				return
			}
			if got := string(say); !strings.HasPrefix(got, "cloister: ") || !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\r\n") {
				t.Fatalf("said %q", got)
			}
			if !strings.HasSuffix(c.text[:at], "\r\n") || at != len(c.text) {
				t.Errorf("it stands behind %q", c.text[:at])
			}
			if _, say := w.Heard([]byte(c.text), inLines); len(say) != 0 {
				t.Errorf("said twice: %q", say)
			}
		})
	}
}

// TestPieces cuts an error at every place.
func TestPieces(t *testing.T) {
	const text = "error: could not write config file .git/config: Device or resource busy\r\n$ "
	for cut := range text {
		w := words("/p", heldpath.Options{})
		_, one := w.Heard([]byte(text[:cut]), inLines)
		_, two := w.Heard([]byte(text[cut:]), inLines)
		_, three := w.Heard([]byte("\r\n"), inLines)
		if got := string(one) + string(two) + string(three); strings.Count(got, "cloister: ") != 1 {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
}

// TestScreens: nothing is written into what a program draws.
func TestScreens(t *testing.T) {
	const text = "\x1b[5;1H  error: could not write config file .git/config:\x1b[6;3HDevice or resource busy\x1b[7;1H"
	above := ""
	w := words("/p", heldpath.Options{Above: func(line string) { above += line }})
	if _, say := w.Heard([]byte(text), asScreen); len(say) != 0 || !strings.HasPrefix(above, ".git/config is protected") {
		t.Errorf("said %q, above %q", say, above)
	}
	w = words("/p", heldpath.Options{})
	if _, say := w.Heard([]byte(text), asScreen); len(say) != 0 {
		t.Errorf("said %q", say)
	}
	if at, say := w.Heard([]byte("\x1b[?1049l\r\n$ "), inLines); at != len("\x1b[?1049l\r\n") || !strings.Contains(string(say), ".git/config is protected") {
		t.Errorf("afterwards: %d %q", at, say)
	}
	if left := w.Left(); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// TestQuiet has no words where no person wants any.
func TestQuiet(t *testing.T) {
	w := heldpath.New([]sandbox.Protect{{Target: "/p/.envrc", File: true}}, nil, heldpath.Options{Root: "/p"})
	if _, say := w.Heard([]byte(".envrc: Read-only file system\r\n"), inLines); say != nil {
		t.Errorf("%q", say)
	}
}
