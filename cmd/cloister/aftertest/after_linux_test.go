package aftertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/internal/needs"
)

var binary string

func TestMain(m *testing.M) { os.Exit(needs.Cloister(m, &binary)) }

// TestGenerated makes a project and a hostile session of a number, and looks at what the
// next session and git of the host do with what is left. There are a few numbers, and
// with CLOISTER_TEST_LONG=1 new ones for ten minutes; CLOISTER_AFTER_SEED is one. With
// CLOISTER_LAYER_OFF=view or protect and a product that can leave layers out it must fail.
func TestGenerated(t *testing.T) {
	w := newWorld(t)
	if text := os.Getenv("CLOISTER_AFTER_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w.seed(t, seed)
		return
	}
	for seed := range uint64(6) {
		w.seed(t, seed)
	}
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		return
	}
	n := 0
	for end, seed := time.Now().Add(10*time.Minute), uint64(time.Now().UnixNano()); time.Now().Before(end); seed++ {
		w.seed(t, seed)
		n++
	}
	t.Logf("%d sessions in ten minutes", n)
}

func (w *world) seed(t *testing.T, seed uint64) {
	t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { w.afterwards(t, rand.New(rand.NewPCG(seed, 15))) })
}

// A world is one person's machine: a home, folders of Cloister's, a guardian.
type world struct {
	dir, home, outside, marks string
	env                       []string
	n                         int
}

const (
	canary  = "CANARY-OF-THE-HOST"
	written = "written-by-the-next-session"
)

func newWorld(f *testing.T) *world {
	f.Helper()
	needs.Program(f, "git", "git")
	dir, err := os.MkdirTemp("/var/tmp", "af")
	if err == nil {
		err = os.Chmod(dir, 0o711) // what runs inside is another user where root tests
	}
	if err != nil {
		f.Fatal(err)
	}
	w := &world{dir: dir, home: dir + "/home", outside: dir + "/outside", marks: dir + "/marks"}
	for _, d := range []string{"home/.ssh", "home/src", "outside/lib", "marks", "run", "c/cloister", "s", "d", "t"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	// Outside everybody may read and write: what keeps a session away is the enclosure alone.
	for _, d := range []string{"home", "home/src", "outside", "outside/lib", "marks"} {
		if err := os.Chmod(filepath.Join(dir, d), 0o777); err != nil {
			f.Fatal(err)
		}
	}
	for _, name := range []string{"outside/secret", "outside/lib/key", "home/.ssh/id"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(canary+"\n"), 0o666); err != nil {
			f.Fatal(err)
		}
	}
	config := "version: 1\nproxy: {presets: [], unlisted_domain_behavior: deny}\n"
	if err := os.WriteFile(dir+"/c/cloister/config.yaml", []byte(config), 0o600); err != nil {
		f.Fatal(err)
	}
	person := "[user]\n\tname = Ada\n\temail = ada@example.org\n[protocol \"file\"]\n\tallow = always\n"
	if err := os.WriteFile(w.home+"/.gitconfig", []byte(person), 0o600); err != nil {
		f.Fatal(err)
	}
	w.env = []string{
		"HOME=" + w.home, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TMPDIR=" + dir + "/t",
		"XDG_CONFIG_HOME=" + dir + "/c", "XDG_STATE_HOME=" + dir + "/s", "XDG_DATA_HOME=" + dir + "/d", "XDG_RUNTIME_DIR=" + dir + "/run",
	}
	if off := os.Getenv("CLOISTER_LAYER_OFF"); off != "" { // the control: see TestGenerated
		w.env = append(w.env, "CLOISTER_LAYER_OFF="+off)
	}
	if out, err := w.host(f, w.home, "git init -q -b main "+w.home+"/lib && cd lib && echo 1 >one && git add . && git commit -qm one"); err != nil {
		f.Fatalf("%v %s", err, out)
	}
	f.Cleanup(func() {
		_, _ = w.cloister(f, w.home, "stop", "--all", "-t", "1s") // none may be left
		_, _ = w.cloister(f, w.home, "guardian", "stop")
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			f.Error(err)
		}
	})
	return w
}

// within bounds each program: a pipe that nobody writes would hold one for ever.
const within = 60 * time.Second

func (w *world) program(t testing.TB, dir, name string, words ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c := exec.CommandContext(ctx, name, words...)
	c.Dir, c.Env = dir, w.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("not within %v: %w", within, err)
	}
	return out.String(), err
}

func (w *world) host(t testing.TB, dir, script string) (string, error) {
	t.Helper()
	return w.program(t, dir, "sh", "-c", script)
}

// git asks git of the host. One that waits for a pipe of the payload's runs nothing.
func (w *world) git(t testing.TB, dir, script string) string {
	t.Helper()
	out, _ := w.program(t, dir, "timeout", "-s", "KILL", "5", "sh", "-c", script)
	return out
}

func (w *world) cloister(t testing.TB, dir string, words ...string) (string, error) {
	t.Helper()
	return w.program(t, dir, binary, words...)
}

// prompts is what a prompt, an editor and a person ask of git in a folder.
const prompts = `git rev-parse --show-toplevel; git symbolic-ref -q HEAD; git status --porcelain; git diff; git log -1 -p; ` +
	`git stash list; git submodule status; git branch -vv; git fetch -q; git push -q origin HEAD; true`

// glance is the least of it.
const glance = "git status --porcelain; git diff; git log -1 -p; true"

// afterwards is one project with one hostile session, and what comes after it.
func (w *world) afterwards(t *testing.T, rng *rand.Rand) {
	w.n++
	project := fmt.Sprintf("%s/src/p%d-%d", w.home, os.Getpid(), w.n)
	tree := layTree(rng)
	if out, err := w.host(t, w.home, "mkdir "+project+" && cd "+project+" && "+tree); err != nil {
		t.Fatalf("lay the project: %v\n%s\n%s", err, tree, out)
	}
	if rng.IntN(3) == 0 {
		// Folders that are as they were for two seconds need not be listed at the end.
		time.Sleep(2100 * time.Millisecond) //nolint:forbidigo // times of files have no other clock
	}
	mark := filepath.Join(w.marks, filepath.Base(project))
	script := attackScript(rng, w.outside, mark)
	var said []string
	defer func() {
		if t.Failed() {
			t.Logf("the project:\n%s\nthe session:\n%s\nwhat was said:\n%s", tree, script, strings.Join(said, "\n"))
		}
		_, _ = w.host(t, w.home, "chmod -R u+rwX "+project+"; rm -rf "+project+" "+project+"-wt "+mark)
	}()
	first, err := w.cloister(t, project, "run", "--", "sh", "-c", script)
	said = append(said, "$ the session\n"+first)
	if err != nil {
		t.Fatalf("the session: %v", err)
	}
	w.ranNothing(t, mark, "by the end of the session")

	// At the top nothing planted runs, whatever was said.
	out := w.git(t, project, prompts)
	said = append(said, "$ git at the top\n"+out)
	w.ranNothing(t, mark, "by git at the project's top")

	// Below it only what a person was told of.
	told := w.waiting(t, project)
	for _, dir := range folders(project) {
		out := w.git(t, filepath.Join(project, dir), glance)
		if _, err := os.Lstat(mark); err == nil && !tells(told, dir) {
			said = append(said, "$ git in "+dir+"\n"+out)
			t.Errorf("git in %s ran what was planted, and the list does not name it: %.300q", dir, told)
		}
		_ = os.Remove(mark)
	}

	// The next session sees and writes nothing of the outside.
	second, err := w.cloister(t, project, "run", "--", "sh", "-c", lookScript(w.outside, w.home))
	said = append(said, "$ the next session\n"+second)
	if strings.Contains(second, canary) {
		t.Error("the next session saw what lies outside the project")
	}
	if err != nil {
		w.refused(t, project, second)
	}
	w.ranNothing(t, mark, "by the next session")
	for _, name := range []string{"outside/secret", "outside/lib/key", "home/.ssh/id"} {
		text, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil || string(text) != canary+"\n" {
			t.Errorf("%s says %q: %v", name, text, err)
		}
	}
	for dir, want := range map[string]int{w.outside: 2, w.outside + "/lib": 1} {
		if list, err := os.ReadDir(dir); err != nil || len(list) != want {
			t.Errorf("%s has %d files: %v", dir, len(list), err)
		}
	}
}

// refused looks at a start that is refused: it says what to remove, and after that it starts.
func (w *world) refused(t *testing.T, project, said string) {
	t.Helper()
	if !strings.Contains(said, "hint: ") || !strings.Contains(said, filepath.Base(project)) {
		t.Errorf("a start fails, and does not say of which path: %s", said)
	}
}

func (w *world) ranNothing(t *testing.T, mark, when string) {
	t.Helper()
	if _, err := os.Lstat(mark); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was planted ran %s", when)
		_ = os.Remove(mark)
	}
}

// waiting are the paths that review names.
func (w *world) waiting(t *testing.T, project string) []string {
	t.Helper()
	out, _ := w.cloister(t, project, "review", "--json")
	var doc any
	if err := json.Unmarshal([]byte(out[max(0, strings.IndexAny(out, "{[")):]), &doc); err != nil {
		t.Errorf("review: %v: %s", err, out)
		return nil
	}
	return pathsIn(doc)
}

// pathsIn are the values of all keys path of a document.
func pathsIn(doc any) []string {
	var out []string
	switch v := doc.(type) {
	case map[string]any:
		for key, value := range v {
			if s, ok := value.(string); ok && key == "path" {
				out = append(out, s)
			} else {
				out = append(out, pathsIn(value)...)
			}
		}
	case []any:
		for _, e := range v {
			out = append(out, pathsIn(e)...)
		}
	}
	slices.Sort(out)
	return out
}

// tells reports whether a list names a folder, something in it or around it, or the
// settings of a repository around it.
func tells(told []string, dir string) bool {
	return slices.ContainsFunc(told, func(path string) bool {
		if top, name := filepath.Split(path); name == "config" && top != "" && strings.HasPrefix(dir+"/", top) {
			return true
		}
		return strings.HasPrefix(path+"/", dir+"/") || strings.HasPrefix(dir+"/", path+"/")
	})
}

// folders are those of a project in which a person may stand, .git's left out.
func folders(project string) []string {
	var out []string
	_ = filepath.WalkDir(project, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, project+"/")
		if err != nil || !d.IsDir() || rel == project {
			return nil
		}
		if d.Name() == "objects" || len(out) > 16 {
			return fs.SkipDir
		}
		out = append(out, rel)
		return nil
	})
	return out
}
