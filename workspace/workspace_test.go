package workspace_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/workspace/stubs"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/workspace"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// base is a folder without symbolic links above it.
func base(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func repo(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "HEAD"), "ref: refs/heads/main\n")
	for _, sub := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	dir := base(t)
	repo(t, filepath.Join(dir, "main/.git"))
	write(t, filepath.Join(dir, "main/sub/f"), "")
	repoWT := filepath.Join(dir, "main/.git/worktrees/wt")
	write(t, filepath.Join(repoWT, "commondir"), "../..\n")
	write(t, filepath.Join(repoWT, "gitdir"), filepath.Join(dir, "wt/.git")+"\n")
	write(t, filepath.Join(dir, "wt/.git"), "gitdir: "+repoWT+"\n")
	write(t, filepath.Join(dir, "planted/.git"), "gitdir: "+repoWT+"\n")
	write(t, filepath.Join(dir, "keys/id"), "secret")
	write(t, filepath.Join(dir, "evil/.git"), "gitdir: "+filepath.Join(dir, "keys")+"\n")
	write(t, filepath.Join(dir, "twolines/.git"), "gitdir: x\nmore\n")
	write(t, filepath.Join(dir, "empty/.git"), "")
	write(t, filepath.Join(dir, "plain/f"), "")
	write(t, filepath.Join(dir, "halfgit/.git/config"), "")
	if err := os.Symlink("main", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		start, root string
		common      string
		fails       bool
	}{
		{start: "main", root: "main", common: "main/.git"},
		{start: "main/sub", root: "main", common: "main/.git"},
		{start: "link/sub", fails: true}, // host/resolve follows links, and says who made them
		{start: "wt", root: "wt", common: "main/.git"},
		{start: "plain", root: "plain"},
		{start: "halfgit", root: "halfgit"},
		{start: "planted", fails: true},
		{start: "evil", fails: true},
		{start: "twolines", fails: true},
		{start: "empty", fails: true},
		{start: "absent", fails: true},
		{start: "plain/f", fails: true},
	} {
		t.Run(tt.start, func(t *testing.T) {
			p, err := workspace.Find(filepath.Join(dir, tt.start))
			if (err != nil) != tt.fails {
				t.Fatalf("error %v, want one: %v", err, tt.fails)
			}
			if tt.fails {
				return
			}
			if string(p.Root) != filepath.Join(dir, tt.root) {
				t.Errorf("root %s, want %s", p.Root, tt.root)
			}
			if tt.common == "" && p.Git != nil || tt.common != "" && (p.Git == nil || p.Git.Common != filepath.Join(dir, tt.common)) {
				t.Errorf("git %+v, want %s", p.Git, tt.common)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	places := workspace.Places{Home: "/home/u", State: []string{"/home/u/.config/cloister", "/srv/state"}, Socket: []string{"/run/docker.sock"}}
	no := func(string) bool { return false }
	yes := func(string) bool { return true }
	for _, tt := range []struct {
		root     string
		accepted func(string) bool
		refused  bool
	}{
		{"/home/u/src/p", no, false},
		{"/srv/p", no, false},
		{"/", yes, true},
		{"/home/u", no, true},
		{"/home/u", yes, false},
		{"/home", yes, true},
		{"/run", yes, true},
		{"/etc/x", yes, true},
		{"/srv/state/p", yes, true},
		{"/srv", yes, true},
		{"/home/u/.config/cloister", yes, true},
		{"/var", yes, true},
	} {
		err := workspace.Project{Root: sandbox.HostPath(tt.root)}.Check(places, tt.accepted)
		var wide *workspace.TooWide
		if errors.As(err, &wide) != tt.refused {
			t.Errorf("%s: %v, want refused: %v", tt.root, err, tt.refused)
		}
	}
}

func plan(t *testing.T, dir string, o workspace.Options) *workspace.View {
	t.Helper()
	p, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.Data, o.Locks = filepath.Join(filepath.Dir(dir), "data"), filepath.Join(filepath.Dir(dir), "locks")
	v, err := planOf(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestStubsAreSharedAndRemovedByTheLast(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	write(t, filepath.Join(dir, "f"), "")
	first := plan(t, dir, workspace.Options{})
	if !slices.Contains(names(t, dir), ".vscode") {
		t.Fatal("no stub was made")
	}
	second := plan(t, dir, workspace.Options{})
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names(t, dir), ".vscode") {
		t.Fatal("a stub was removed under a living session")
	}
	// What somebody put into a stub meanwhile is theirs.
	write(t, filepath.Join(dir, ".idea/workspace.xml"), "mine")
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{".idea", "f"}) {
		t.Errorf("left: %v", got)
	}
}

// A session knows which stubs it made itself, whether it is the last that needs them, and
// whether one of them is something else by now: what lies there is looked at then.
func TestOwnStubs(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	repo(t, filepath.Join(dir, ".git"))
	first := plan(t, dir, workspace.Options{})
	if own := first.Own(); !own[".vscode"] || !own[".git/commondir"] || own[".git"] {
		t.Errorf("its own: %v", own)
	}
	second := plan(t, dir, workspace.Options{})
	if own := second.Own(); own[".vscode"] {
		t.Errorf("another session's are its own: %v", own)
	}
	end := func(v *workspace.View, last, left bool) {
		t.Helper()
		if v.Last() != last {
			t.Errorf("the last one: %v", !last)
		}
		if err := v.Release(); err != nil || v.Left() != left {
			t.Errorf("left: %v, %v", v.Left(), err)
		}
	}
	end(first, false, true)
	end(second, true, false)
	for _, spoil := range []func(at string) error{
		func(at string) error {
			return os.WriteFile(filepath.Join(at, ".vscode/tasks.json"), []byte("mine"), 0o644)
		},
		func(at string) error {
			return errors.Join(os.Remove(filepath.Join(at, ".envrc")), os.WriteFile(filepath.Join(at, ".envrc"), []byte("mine"), 0o644))
		},
		func(at string) error {
			return errors.Join(os.Remove(filepath.Join(at, ".idea")), os.Symlink("/", filepath.Join(at, ".idea")))
		},
	} {
		v := plan(t, dir, workspace.Options{})
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		end(v, true, true)
		for _, name := range []string{".vscode", ".envrc", ".idea"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What a payload shuts, the end of the session opens, and shuts again.
func TestReleaseOfShutFolders(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	repo(t, filepath.Join(dir, ".git"))
	repo(t, filepath.Join(dir, "deep/sub/.git"))
	write(t, filepath.Join(dir, "deep/sub/.git/config"), "[core]\n\tbare = false\n")
	v := plan(t, dir, workspace.Options{})
	git := filepath.Join(dir, "deep/sub/.git")
	if !slices.Contains(names(t, git), "commondir") {
		t.Fatalf("nothing is held in a repository below: %v", names(t, git))
	}
	for _, shut := range []string{"deep/sub/.git", "deep/sub", "deep"} {
		if err := os.Chmod(filepath.Join(dir, shut), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Release(); err != nil {
		t.Error(err)
	}
	for _, shut := range []string{"deep", "deep/sub", "deep/sub/.git"} {
		full := filepath.Join(dir, shut)
		if fi, err := os.Lstat(full); err != nil || fi.Mode().Perm() != 0 {
			t.Errorf("%s: %v, %v", shut, fi.Mode(), err)
		}
		if err := os.Chmod(full, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, git); slices.Contains(got, "commondir") {
		t.Errorf("left: %v", got)
	}
}

func TestSweepRemovesWhatACrashLeft(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	repo(t, filepath.Join(dir, ".git"))
	v := plan(t, dir, workspace.Options{})
	locks := filepath.Join(filepath.Dir(dir), "locks")
	if err := stubs.Sweep(locks); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names(t, dir), ".vscode") {
		t.Fatal("the sweep took a living session's stubs")
	}
	journal, err := os.ReadFile(filepath.Join(locks, only(t, locks, "*.stubs")))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Release(); err != nil {
		t.Fatal(err)
	}
	// The crash: stubs and journal are there, no session is.
	again := plan(t, dir, workspace.Options{})
	if err := os.WriteFile(filepath.Join(locks, "dead.stubs"), journal, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(locks, "dead.lock"), "")
	// Another user's, which nobody but root can open, is none of this one's.
	write(t, filepath.Join(locks, "another.lock"), "")
	if err := os.Chmod(filepath.Join(locks, "another.lock"), 0); err != nil {
		t.Fatal(err)
	}
	if err := stubs.Sweep(locks); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{".git"}) {
		t.Errorf("left: %v", got)
	}
	if got := names(t, filepath.Join(dir, ".git")); slices.Contains(got, "commondir") {
		t.Errorf("left: %v", got)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

// What an agent makes a link of on the way to a stub leads to nobody else's files.
func TestStubsAreNotRemovedThroughLinks(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	repo(t, filepath.Join(dir, ".git"))
	v := plan(t, dir, workspace.Options{})
	before := names(t, filepath.Join(dir, ".git"))
	if !slices.Contains(before, "commondir") {
		t.Fatalf("no stub in %v", before)
	}
	victim := filepath.Join(filepath.Dir(dir), "victim")
	if err := errors.Join(os.Rename(filepath.Join(dir, ".git"), victim), os.Symlink(victim, filepath.Join(dir, ".git"))); err != nil {
		t.Fatal(err)
	}
	if err := v.Release(); err != nil {
		t.Fatal(err)
	}
	if after := names(t, victim); !slices.Equal(after, before) {
		t.Errorf("of %v are left %v", before, after)
	}
	if got := names(t, dir); !slices.Equal(got, []string{".git"}) {
		t.Errorf("left: %v", got)
	}
}

func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return filepath.Base(found[0])
}

func TestChanged(t *testing.T) {
	dir := base(t)
	for _, f := range []string{"a/.envrc", ".vscode/tasks.json", "deep/1/2/3/.zed/tasks.json", "moved/.git/hooks/pre-commit", "src/hooks/useX.ts", "node_modules/x/.npmrc"} {
		write(t, filepath.Join(dir, f), "old")
	}
	time.Sleep(20 * time.Millisecond) //nolint:forbidigo // file times have ticks
	since := time.Now()
	time.Sleep(20 * time.Millisecond) //nolint:forbidigo // file times have ticks
	none := holder{}
	if got, _ := workspace.Changed(t.Context(), dir, since, none); len(got) != 0 {
		t.Fatalf("nothing changed, got %v", got)
	}
	write(t, filepath.Join(dir, "a/.envrc"), "new")
	write(t, filepath.Join(dir, "src/hooks/useY.ts"), "new")
	write(t, filepath.Join(dir, "sub/.git/config"), "new")
	write(t, filepath.Join(dir, "sub/.git/hooks/x.sample"), "new")
	write(t, filepath.Join(dir, "vendor/ev/.git/config"), "new")
	write(t, filepath.Join(dir, "node_modules/y/.npmrc"), "new")
	write(t, filepath.Join(dir, ".git/rebase-merge/git-rebase-todo"), "exec evil")
	write(t, filepath.Join(dir, ".git/objects/info/alternates"), "/home/other/.git/objects\n")
	write(t, filepath.Join(dir, ".git/objects/cd/ef"), "data")
	repo(t, filepath.Join(dir, "bare"))
	write(t, filepath.Join(dir, "bare/config"), "new")
	write(t, filepath.Join(dir, "bare/hooks/post-update"), "new")
	if err := os.Rename(filepath.Join(dir, "deep/1/2/3/.zed"), filepath.Join(dir, ".zed")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "split/HEAD"), "ref: refs/heads/x\n")
	write(t, filepath.Join(dir, "split/commondir"), "../common\n")
	write(t, filepath.Join(dir, "common/config"), "new")
	for _, d := range []string{"common/objects", "common/refs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"m/.hg/hgrc", "m/.hg/store/x", "s/.sl/config", "j/.jj/repo/config.toml", "d/_darcs/prefs/defaults", ".Rprofile"} {
		write(t, filepath.Join(dir, f), "new")
	}
	write(t, filepath.Join(dir, "folded/.GIT/Hooks/pre-commit"), "new")
	write(t, filepath.Join(dir, "folded/.Claude/settings.json"), "new")
	for from, to := range map[string]string{".git/logs/HEAD": "../../../.bashrc", ".git/refs/heads/x": "../../../../x", ".git/objects/ab": "../../../other", "bare/HEAD2": "/etc/passwd", "src/link": "../.git/config"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, from)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		".Rprofile", ".git/logs/HEAD", ".git/objects/ab", ".git/objects/info/alternates", ".git/rebase-merge/git-rebase-todo", ".git/refs/heads/x", ".zed/tasks.json", "a/.envrc", "bare/HEAD2", "bare/config", "bare/hooks/post-update",
		"common/config", "d/_darcs/prefs/defaults", "elsewhere/.git/hooks/pre-commit", "folded/.Claude/settings.json", "folded/.GIT/Hooks/pre-commit",
		"j/.jj/repo/config.toml", "m/.hg/hgrc", "s/.sl/config", "split/commondir", "sub/.git/config", "vendor/ev/.git/config",
	}
	if got, _ := workspace.Changed(t.Context(), dir, since, none); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	held := holder{held: "elsewhere"}
	if got, _ := workspace.Changed(t.Context(), dir, since, held); !slices.Contains(got, "a/.envrc") {
		t.Error("a changed file is not reported")
	}
	write(t, filepath.Join(dir, "a/.envrc"), "")
	if got, _ := workspace.Changed(t.Context(), dir, since, held); slices.Contains(got, "a/.envrc") || slices.Contains(got, "elsewhere/.git/hooks/pre-commit") {
		t.Errorf("a stub or a held folder is reported: %v", got)
	}
}

// A bare repository has no .git in its path that tells whose files these are.
func TestChangedBeside(t *testing.T) {
	dir := base(t)
	for _, common := range []string{"app.git", "main/.git"} {
		admin, tree := filepath.Join(dir, common, "worktrees/wt"), filepath.Join(dir, "tree of "+filepath.Base(common))
		repo(t, filepath.Join(dir, common))
		write(t, filepath.Join(dir, common, "config"), "[core]\n\tbare = true\n")
		write(t, filepath.Join(admin, "HEAD"), "ref: refs/heads/x\n")
		write(t, filepath.Join(admin, "commondir"), "../..\n")
		write(t, filepath.Join(admin, "gitdir"), filepath.Join(tree, ".git")+"\n")
		write(t, filepath.Join(dir, common, "worktrees/other/config.worktree"), "theirs")
		write(t, filepath.Join(tree, ".git"), "gitdir: "+admin+"\n")
		p, err := workspace.Find(tree)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // file times have ticks
		since := time.Now()
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // file times have ticks
		if got, cut := workspace.ChangedBeside(t.Context(), p, since, holder{}); len(got) != 0 || cut {
			t.Fatalf("%s: nothing changed, got %v", common, got)
		}
		for _, name := range []string{"config.worktree", "rebase-merge/git-rebase-todo", "modules/lib/.git/hooks/update", "index", "logs/HEAD"} {
			write(t, filepath.Join(admin, name), "new")
		}
		write(t, filepath.Join(dir, common, "config"), "new")
		write(t, filepath.Join(dir, common, "hooks/post-commit"), "new")
		write(t, filepath.Join(dir, common, "worktrees/other/config.worktree"), "theirs still")
		want := []string{
			filepath.Join(dir, common, "config"), filepath.Join(dir, common, "hooks/post-commit"), filepath.Join(admin, "config.worktree"),
			filepath.Join(admin, "modules/lib/.git/hooks/update"), filepath.Join(admin, "rebase-merge/git-rebase-todo"),
		}
		if got, _ := workspace.ChangedBeside(t.Context(), p, since, holder{}); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
}

// A folder that cannot be listed can be entered by whoever knows a name in it.
func TestChangedUnreadable(t *testing.T) {
	dir := base(t)
	write(t, filepath.Join(dir, "old/locked/x"), "old")
	chmod := func(rel string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(filepath.Join(dir, rel), mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod("old/locked", 0)
	time.Sleep(20 * time.Millisecond) //nolint:forbidigo // file times have ticks
	since := time.Now()
	time.Sleep(20 * time.Millisecond) //nolint:forbidigo // file times have ticks
	write(t, filepath.Join(dir, "entered/.envrc"), "new")
	write(t, filepath.Join(dir, "shut/.envrc"), "new")
	chmod("entered", 0o311)
	chmod("shut", 0)
	write(t, filepath.Join(dir, "read/deep/.envrc"), "new")
	chmod("read", 0o644)
	t.Cleanup(func() {
		chmod("entered", 0o755)
		chmod("shut", 0o755)
		chmod("read", 0o755)
		chmod("old/locked", 0o755)
	})
	// What lies beside a file that is called as git's HEAD is is no data of git.
	write(t, filepath.Join(dir, "x/HEAD"), "")
	write(t, filepath.Join(dir, "x/objects/.envrc"), "new")
	want := []string{"entered", "read", "shut", "x/objects/.envrc"}
	if os.Geteuid() == 0 { // who sees into them
		want = []string{"entered/.envrc", "read/deep/.envrc", "shut/.envrc", "x/objects/.envrc"}
	}
	got, truncated := workspace.Changed(t.Context(), dir, since, holder{})
	if !slices.Equal(got, want) || truncated {
		t.Errorf("got %v, truncated %v; want %v", got, truncated, want)
	}
}

type holder struct{ held string }

func (h holder) Held(rel string) bool { return rel == h.held }

func TestLinked(t *testing.T) {
	dir := base(t)
	project, outside := filepath.Join(dir, "p"), filepath.Join(dir, "outside")
	write(t, outside, "x")
	write(t, filepath.Join(project, "own"), "x")
	write(t, filepath.Join(project, ".git/objects/aa/bb"), "x")
	for from, to := range map[string]string{
		outside: filepath.Join(project, "alias"), filepath.Join(project, "own"): filepath.Join(project, "own2"),
		filepath.Join(project, ".git/objects/aa/bb"): filepath.Join(dir, "clone"),
	} {
		if err := os.Link(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if got := workspace.LookBefore(t.Context(), project, nil).Linked; !slices.Equal(got, []string{filepath.Join(project, "alias")}) {
		t.Errorf("got %v", got)
	}
}

// Whoever connects to a socket talks to a program of the host, also through a
// read-only mount: each that lies in what is shown is covered.
func TestSocketsAreCovered(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sockets that lie deep are known to Linux alone")
	}
	top, err := os.MkdirTemp("", "cl") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	})
	project, shown, written := filepath.Join(top, "p"), filepath.Join(top, "shown"), filepath.Join(top, "written")
	want := []string{}
	for _, path := range []string{project + "/s", project + "/node_modules/x/s", project + "/.git/s", shown + "/deep/s", written + "/deep/s"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		want = append(want, path)
	}
	repo(t, filepath.Join(project, ".git"))
	v := plan(t, project, workspace.Options{
		Expose: []workspace.Expose{{Path: shown}, {Path: written, Access: sandbox.ReadWrite}}, Refs: []string{shown},
	})
	covered, pinned := []string{}, []string{}
	for _, p := range v.Protect {
		switch {
		case filepath.Base(string(p.Target)) == "s" && p.Empty && p.File:
			covered = append(covered, string(p.Target))
		case p.Pin:
			pinned = append(pinned, string(p.Target))
		}
	}
	slices.Sort(covered)
	want = append(want, "/refs/shown/deep/s")
	slices.Sort(want)
	if !slices.Equal(covered, want) {
		t.Errorf("covered %v\nwant    %v", covered, want)
	}
	for _, dir := range []string{project + "/node_modules", project + "/node_modules/x", written + "/deep"} {
		if !slices.Contains(pinned, dir) {
			t.Errorf("%s can be renamed, with the socket in it; pinned are %v", dir, pinned)
		}
	}
}

func TestExposeRefuses(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	write(t, filepath.Join(dir, "f"), "")
	p, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := workspace.Options{Data: filepath.Join(filepath.Dir(dir), "data"), Locks: filepath.Join(filepath.Dir(dir), "locks"), KeepOut: []string{filepath.Join(filepath.Dir(dir), "data")}}
	for _, path := range []string{"/", filepath.Dir(dir), filepath.Join(filepath.Dir(dir), "data"), "/no/such", "/dev/null", "/proc", "/proc/self", "/dev", "/sys"} {
		o.Expose = []workspace.Expose{{Path: path}}
		if v, err := planOf(t, p, o); err == nil {
			t.Errorf("%s was exposed", path)
			if err := v.Release(); err != nil {
				t.Error(err)
			}
		}
	}
	// What the cloister makes itself would end the start later, in the driver's words.
	for _, e := range []workspace.Expose{{Path: "/etc"}, {Path: "/var/tmp"}, {Path: t.TempDir(), At: "/work/x"}} {
		o.Expose = []workspace.Expose{e}
		v, err := planOf(t, p, o)
		if err == nil {
			err = v.Release()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "expose "+e.Path+": ") || !strings.Contains(err.Error(), "name what") && !strings.Contains(err.Error(), "--ref") {
			t.Errorf("%+v: %v", e, err)
		}
	}
	// Which words: a part may be named of what holds the state, and none of the state.
	state := o.KeepOut[0]
	write(t, filepath.Join(state, "audit/log"), "")
	for path, want := range map[string]string{
		filepath.Dir(dir):             "holds Cloister's own state (" + state + "), which no cloister may see: name what of it is needed",
		filepath.Join(state, "audit"): "is Cloister's own state (" + state + "), which no cloister may see",
		"/":                           "all of the host: name what of it is needed",
	} {
		o.Expose, o.Refs = nil, []string{path}
		v, err := planOf(t, p, o)
		if err == nil {
			err = v.Release()
		}
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("--ref %s: %v", path, err)
		}
	}
	// Elsewhere it is in nothing's way.
	for _, path := range []string{"/etc", "/etc/ssl/certs", "/var/tmp"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		o.Refs = []string{path}
		v, err := planOf(t, p, o)
		if err == nil {
			err = v.Release()
		}
		if err != nil {
			t.Errorf("--ref %s: %v", path, err)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("a failed plan left %v", got)
	}
}

// A home cannot lie below a link.
func TestHomeBelowTheAlias(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	write(t, filepath.Join(dir, "f"), "")
	p, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := workspace.Options{Data: filepath.Join(filepath.Dir(dir), "data"), Locks: filepath.Join(filepath.Dir(dir), "locks"), Home: "/work/person"}
	for none, want := range map[bool]sandbox.GuestPath{false: "/home/agent", true: "/work/person"} {
		o.None = none
		v, err := planOf(t, p, o)
		if err != nil {
			t.Fatal(err)
		}
		if v.Home != want || none != (len(v.Links) == 0) {
			t.Errorf("without a project %v: the home is %s, want %s; links %v", none, v.Home, want, v.Links)
		}
		if err := v.Release(); err != nil {
			t.Error(err)
		}
	}
}

// A pointer leads to a folder that the agent made: what is in there may be
// anything, and looking at it must end.
func TestFindDoesNotWaitForAPipe(t *testing.T) {
	for _, name := range []string{"commondir", "gitdir", "config"} {
		t.Run(name, func(t *testing.T) {
			dir := base(t)
			at := filepath.Join(dir, "project/planted")
			repo(t, at)
			write(t, filepath.Join(dir, "project/.git"), "gitdir: planted\n")
			if name == "gitdir" {
				write(t, filepath.Join(at, "commondir"), ".\n")
			}
			if err := unix.Mkfifo(filepath.Join(at, name), 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := workspace.Find(filepath.Join(dir, "project"))
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil {
					t.Error("found")
				}
			case <-time.After(20 * time.Second):
				t.Error("it waits for somebody to write into the pipe")
				go func() { _ = os.WriteFile(filepath.Join(at, name), nil, 0o600) }() // lets the other one end
				<-done
			}
		})
	}
}

// FuzzFind: whatever stands in a repository's own files, the folders found are
// below the folder that was made here, and point back to where they were found.
func FuzzFind(f *testing.F) {
	f.Add("gitdir: ../main/.git/worktrees/wt\n", "../..\n", "../../../../wt/.git\n", "[core]\n\tbare = false\n")
	f.Add("gitdir: ../main/.git/worktrees/wt", "../../", "../../../../wt/../wt/.git", "")
	f.Add("gitdir: ../main/.git\n", "", "", "[core]\n\tworktree = ../../wt\n")
	f.Add("gitdir: /proc/self/cwd/../..\n", "/\n", "/etc/passwd\n", "[include]\n\tpath = /dev/zero\n")
	f.Add("gitdir: \x00", "\r\n", "..", "[core]hooksPath=\"\\")
	f.Fuzz(func(t *testing.T, dot, common, back, config string) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		repo(t, filepath.Join(dir, "main/.git"))
		write(t, filepath.Join(dir, "main/.git/config"), config)
		tree := filepath.Join(dir, "main/.git/worktrees/wt")
		write(t, filepath.Join(tree, "commondir"), common)
		write(t, filepath.Join(tree, "gitdir"), back)
		write(t, filepath.Join(dir, "wt/.git"), dot)
		p, err := workspace.Find(filepath.Join(dir, "wt"))
		if err != nil {
			return
		}
		if p.Git == nil || string(p.Root) != filepath.Join(dir, "wt") {
			t.Fatalf("found %+v", p)
		}
		for _, folder := range []string{p.Git.Dir, p.Git.Common} {
			if folder != tree && folder != filepath.Join(dir, "main/.git") {
				t.Errorf("%q, %q, %q: granted %s", dot, common, back, folder)
			}
		}
		workspace.FindAuthor(dir, p.Git)
	})
}
