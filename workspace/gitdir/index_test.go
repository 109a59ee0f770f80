package gitdir

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/internal/needs"
)

func gitIn(t *testing.T, dir string, words ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.example"}, words...)...)
	c.Dir, c.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v %s", words, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	// Git looks into a file that is as young as the index, whatever that says.
	old := time.Now().Add(-time.Hour)
	for _, err := range []error{os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644), os.Chtimes(file, old, old)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func all(string) (bool, bool)  { return true, true }
func none(string) (bool, bool) { return false, false }

// Whatever a payload made of the index, git shows what changed after Reread.
func TestReread(t *testing.T) {
	needs.Program(t, "git", "git")
	for name, lie := range map[string]func(t *testing.T, dir string){
		"nothing to see":   func(*testing.T, string) {},
		"assume-unchanged": func(t *testing.T, dir string) { gitIn(t, dir, "update-index", "--assume-unchanged", "sub/Makefile") },
		"skip-worktree":    func(t *testing.T, dir string) { gitIn(t, dir, "update-index", "--skip-worktree", "sub/Makefile") },
		"forged": func(t *testing.T, dir string) {
			before := gitIn(t, dir, "rev-parse", "HEAD:sub/Makefile")
			gitIn(t, dir, "add", "sub/Makefile")
			after := gitIn(t, dir, "rev-parse", ":sub/Makefile")
			old, err := hex.DecodeString(before)
			if err != nil {
				t.Fatal(err)
			}
			staged, err := hex.DecodeString(after)
			if err != nil {
				t.Fatal(err)
			}
			index := filepath.Join(dir, ".git/index")
			text, err := os.ReadFile(index)
			if err == nil {
				err = os.WriteFile(index, bytes.ReplaceAll(text, staged, old), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, how := range [][]string{{"2"}, {"3"}, {"4", "--object-format=sha256"}} {
			t.Run(name+"/"+strings.Join(how, ""), func(t *testing.T) {
				dir := t.TempDir()
				gitIn(t, dir, append([]string{"init", "-q", "-b", "main", "."}, how[1:]...)...)
				for _, file := range []string{"a", "sub/Makefile", "sub/Makefile.am", strings.Repeat("long/", 60) + "b", "z"} {
					write(t, filepath.Join(dir, file), "before\n")
				}
				gitIn(t, dir, "add", ".")
				gitIn(t, dir, "commit", "-qm", "first")
				if how[0] == "3" {
					write(t, filepath.Join(dir, "new"), "new\n")
					gitIn(t, dir, "add", "-N", "new")
				}
				gitIn(t, dir, "update-index", "--index-version", how[0], "--force-untracked-cache")
				status := gitIn(t, dir, "status", "--porcelain")
				write(t, filepath.Join(dir, "sub/Makefile"), "afterwards\n")
				lie(t, dir)
				const want = "M sub/Makefile"
				if control := gitIn(t, dir, "status", "--porcelain"); strings.Contains(control, want) != (name == "nothing to see") {
					t.Fatalf("control: git says %q", control)
				}
				index := filepath.Join(dir, ".git/index")
				if err := Reread(index, all); err != nil {
					t.Fatal(err)
				}
				gitIn(t, dir, "fsck", "--strict") // the checksum too
				if got := gitIn(t, dir, "status", "--porcelain"); got != strings.TrimSpace(status+"\n "+want) && got != strings.TrimSpace(want+"\n"+status) {
					t.Errorf("git says %q, and %q before", got, status)
				}
				// What did not change is believed.
				gitIn(t, dir, "add", ".")
				if err := Reread(index, none); err != nil {
					t.Fatal(err)
				}
				if text, err := os.ReadFile(index); err != nil || bytes.Contains(text, []byte("UNTR")) || bytes.Contains(text, []byte("TREE")) {
					t.Errorf("it still says what git need not look at, %v", err)
				}
				if got := gitIn(t, dir, "diff-files", "--name-only"); got != "" {
					t.Errorf("git looks again at %q", got)
				}
			})
		}
	}
}

// What cannot be read again is an error, and nothing is left of the attempt.
func TestRereadRefuses(t *testing.T) {
	needs.Program(t, "git", "git")
	for name, spoil := range map[string]func(t *testing.T, dir string) error{
		"no index": func(_ *testing.T, dir string) error { return os.WriteFile(dir+"/.git/index", []byte("DIRC"), 0o644) },
		"a link": func(_ *testing.T, dir string) error {
			return os.Symlink("../index2", filepath.Join(dir, ".git/x"))
		},
		"split": func(t *testing.T, dir string) error {
			gitIn(t, dir, "update-index", "--split-index")
			return nil
		},
		"locked": func(_ *testing.T, dir string) error { return os.WriteFile(dir+"/.git/index.lock", nil, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gitIn(t, dir, "init", "-q", "-b", "main", ".")
			write(t, filepath.Join(dir, "a"), "before\n")
			gitIn(t, dir, "add", ".")
			if err := spoil(t, dir); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, ".git/index")
			if name == "a link" {
				file = filepath.Join(dir, ".git/x")
			}
			before, err := os.ReadFile(filepath.Join(dir, ".git/index"))
			if err != nil {
				t.Fatal(err)
			}
			if err := Reread(file, all); err == nil {
				t.Error("it was read again")
			}
			after, err := os.ReadFile(filepath.Join(dir, ".git/index"))
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the index was changed, %v", err)
			}
			if _, err := os.Lstat(file + ".lock"); (err == nil) != (name == "locked") {
				t.Errorf("the lock: %v", err)
			}
		})
	}
}

// FuzzIndex: any text ends, and what comes out has the entries that went in.
func FuzzIndex(f *testing.F) {
	sum := bytes.Repeat([]byte{0}, 20)
	entry := append(bytes.Repeat([]byte{1}, 60), 0, 1, 'a', 0)
	f.Add(append(append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"), append(entry, bytes.Repeat([]byte{0}, 8)...)...), sum...))
	f.Add(append([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x00TREE\x00\x00\x00\x01x"), sum...))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var paths []string
		note := func(path string) (bool, bool) {
			paths = append(paths, path)
			return true, true
		}
		out, err := doubted(text, sha1.New(), note)
		if err != nil {
			return
		}
		first := paths
		paths = nil
		if _, err := doubted(out, sha1.New(), note); err != nil || strings.Join(paths, "\x00") != strings.Join(first, "\x00") {
			t.Errorf("%q became %q, %v", first, paths, err)
		}
	})
}
