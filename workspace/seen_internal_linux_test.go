package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloister/host/resolve"
	"cloister/sandbox"
)

// heldList says of some paths that they were protected.
type heldList []string

func (h heldList) Held(rel string) bool { return slices.Contains(h, rel) }

// lookSettled is LookBefore of a project whose folders all count as settled, and waits until
// a change shows in their times.
func lookSettled(t *testing.T, root string, own map[string]bool) Before {
	t.Helper()
	if !resolve.KeepsTimes(root) {
		t.Skip("this file system's times are not believed: there is nothing to spare")
	}
	w := &walk{
		ctx: t.Context(), root: root, view: unheld{}, own: own,
		seeing: &seen{before: time.Now().Add(time.Hour), folders: map[string]seenFolder{}},
	}
	w.folder("", nil, false, false)
	if len(w.seeing.folders) == 0 || w.truncated {
		t.Fatal("nothing was seen")
	}
	time.Sleep(2 * tickOfTests) //nolint:forbidigo // times of files have no other clock
	return Before{own: own, seen: map[string]*seen{root: w.seeing}}
}

const tickOfTests = 15 * time.Millisecond

// fileTime is just before now by the clock that files are given their times of, which stands
// still for as long as a busy machine puts off the kernel's tick.
func fileTime(t *testing.T) time.Time {
	t.Helper()
	name := filepath.Join(t.TempDir(), "now")
	put(t, name, "")
	info, err := os.Stat(name)
	must(t, err)
	return info.ModTime().Add(-time.Nanosecond)
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// settledProject has what a project has that matters, as old as a test can have it.
func settledProject(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for path, text := range map[string]string{
		"a/b/c/x.go": "x", "a/.envrc": "old", "a/b/y.go": "y", "d/e/.vscode/settings.json": "{}", "d/z": "z",
		"hookish/hooks/pre-commit": "#!/bin/sh", "hookish/objects/x": "", "hookish/note": "n",
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n", ".git/hooks/pre-commit.sample": "x",
		".git/objects/ab/" + fmt.Sprintf("%038d", 1): "o", ".git/objects/cd/" + fmt.Sprintf("%038d", 2): "o",
		".git/objects/pack/pack-" + fmt.Sprintf("%040d", 1) + ".pack": "p", ".git/refs/heads/main": fmt.Sprintf("%040d\n", 1),
		".git/objects/info/commit-graph": "g", ".git/refs/heads/deep/er/branch": fmt.Sprintf("%040d\n", 1), ".git/packed-refs": "# pack-refs\n",
	} {
		put(t, filepath.Join(root, path), text)
	}
	time.Sleep(2 * tickOfTests) //nolint:forbidigo // times of files have no other clock
	return root
}

// endedBoth is what a look finds with what was seen before, which has to be what one finds
// that lists every folder.
func endedBoth(t *testing.T, root string, since time.Time, view Holder, before Before) []string {
	t.Helper()
	p := Project{Root: sandbox.HostPath(root)}
	all, cut := Ended(t.Context(), p, nil, since, time.Time{}, view, Before{own: before.own})
	got, cutToo := Ended(t.Context(), p, nil, since, time.Time{}, view, before)
	if diff := cmp.Diff(all, got); diff != "" || cut != cutToo {
		t.Errorf("with what was seen before (+), without (-): %v, %v\n%s", cut, cutToo, diff)
	}
	return got
}

// What a session changes is found, however it hides it from a folder's times.
func TestSeenHidesNothing(t *testing.T) {
	old := time.Now().Add(-24 * time.Hour)
	bare := func(t *testing.T, dir string) {
		put(t, filepath.Join(dir, "HEAD"), "ref: refs/heads/main\n")
		put(t, filepath.Join(dir, "config"), "[core]\nfsmonitor=x\n")
		must(t, os.MkdirAll(filepath.Join(dir, "refs"), 0o755), os.MkdirAll(filepath.Join(dir, "objects"), 0o755))
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, root string)
		view heldList
		want string
	}{
		"a file deep in, with the folder's times put back": {do: func(t *testing.T, root string) {
			put(t, root+"/a/b/c/.envrc", "evil")
			for _, dir := range []string{"a/b/c/.envrc", "a/b/c", "a/b", "a"} {
				must(t, os.Chtimes(filepath.Join(root, dir), old, old))
			}
		}, want: "a/b/c/.envrc"},
		"a file that was there, written in its place": {do: func(t *testing.T, root string) {
			f, err := os.OpenFile(root+"/a/.envrc", os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteString("new")
			must(t, err, f.Close(), os.Chtimes(root+"/a/.envrc", old, old))
		}, want: "a/.envrc"},
		"a file that was there, written through memory": {do: func(t *testing.T, root string) {
			f, err := os.OpenFile(root+"/a/.envrc", os.O_RDWR, 0)
			must(t, err)
			mem, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			must(t, err)
			copy(mem, "new")
			must(t, unix.Munmap(mem), f.Close())
		}, want: "a/.envrc"},
		"folders exchanged": {do: func(t *testing.T, root string) {
			put(t, root+"/new/.envrc", "evil")
			must(t, unix.Renameat2(unix.AT_FDCWD, root+"/new", unix.AT_FDCWD, root+"/a/b/c", unix.RENAME_EXCHANGE))
		}, want: "a/b/c/.envrc"},
		"a folder taken away and back, changed between": {do: func(t *testing.T, root string) {
			must(t, os.Rename(root+"/a/b", root+"/away"))
			put(t, root+"/away/c/.envrc", "evil")
			must(t, os.Rename(root+"/away", root+"/a/b"))
		}, want: "a/b/c/.envrc"},
		"a link in the place of a folder": {do: func(t *testing.T, root string) {
			must(t, os.Rename(root+"/d/e", root+"/d/f"), os.Symlink("f", root+"/d/e"))
		}, want: "d/f/.vscode/settings.json"},
		"a repository of a folder that was none, held in its place": {do: func(t *testing.T, root string) {
			put(t, root+"/hookish/HEAD", "ref: refs/heads/main\n")
			must(t, os.Mkdir(root+"/hookish/refs", 0o755))
			put(t, root+"/hookish/hooks/pre-commit", "#!/bin/sh\nevil")
		}, view: heldList{"hookish"}, want: "hookish/hooks/pre-commit"},
		"a repository among the objects": {do: func(t *testing.T, root string) {
			bare(t, root+"/.git/objects/ab/evil.git")
		}, want: ".git/objects/ab/evil.git"},
		"a link among the objects": {do: func(t *testing.T, root string) {
			must(t, os.Symlink("/tmp", root+"/.git/objects/cd/x"))
		}, want: ".git/objects/cd/x"},
		"other objects": {do: func(t *testing.T, root string) {
			put(t, root+"/.git/objects/info/alternates", "/elsewhere\n")
		}, want: ".git/objects/info/alternates"},
		"a link for a branch": {do: func(t *testing.T, root string) {
			must(t, os.Remove(root+"/.git/refs/heads/deep/er/branch"), os.Symlink("/x", root+"/.git/refs/heads/deep/er/branch"))
		}, want: ".git/refs/heads/deep/er/branch"},
		"replaced objects in packed refs, written in their place": {do: func(t *testing.T, root string) {
			f, err := os.OpenFile(root+"/.git/packed-refs", os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			_, err = f.WriteString("x refs/replace/y\n")
			must(t, err, f.Close())
		}, view: heldList{".git"}, want: ".git/packed-refs"},
		"a hook beside the samples": {do: func(t *testing.T, root string) {
			must(t, os.Link(root+"/a/b/y.go", root+"/.git/hooks/pre-push"))
		}, want: ".git/hooks/pre-push"},
	} {
		t.Run(name, func(t *testing.T) {
			root := settledProject(t)
			before := lookSettled(t, root, nil)
			since := fileTime(t)
			c.do(t, root)
			if got := endedBoth(t, root, since, append(heldList{".git"}, c.view...), before); !slices.Contains(got, c.want) {
				t.Errorf("%q is not in %q", c.want, got)
			}
		})
	}
}

// A look that knows what was seen before finds what one finds that knows nothing, whatever
// was done to a project.
func TestSeenAgainstWhole(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 15))
		root := settledProject(t)
		var dirs, files []string
		must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && path != root {
				dirs = append(dirs, path)
			} else if err == nil && !e.IsDir() {
				files = append(files, path)
			}
			return err
		}))
		before := lookSettled(t, root, nil)
		since := fileTime(t)
		names := []string{".envrc", "x", "hooks", "HEAD", "config", "objects", "refs", "commondir", ".git", "alternates", ".vscode", "shallow", "index"}
		dir := func() string { return dirs[r.IntN(len(dirs))] }
		file := func() string { return files[r.IntN(len(files))] }
		for range 1 + r.IntN(6) {
			to := filepath.Join(dir(), names[r.IntN(len(names))])
			switch r.IntN(8) { // what fails is no change
			case 0:
				_ = os.WriteFile(to, []byte("new"), 0o644)
			case 1:
				_ = os.MkdirAll(filepath.Join(to, names[r.IntN(len(names))]), 0o755)
			case 2:
				_ = os.Rename(dir(), to)
			case 3:
				_ = unix.Renameat2(unix.AT_FDCWD, dir(), unix.AT_FDCWD, dir(), unix.RENAME_EXCHANGE)
			case 4:
				_ = os.Symlink(dir(), to)
			case 5:
				_ = os.Link(file(), to)
			case 6:
				_ = os.WriteFile(file(), []byte("changed"), 0o644)
			case 7:
				_ = os.RemoveAll(dir())
			}
			_ = os.Chtimes(dir(), time.Unix(1, 0), time.Unix(1, 0))
		}
		view := heldList{".git"}
		if r.IntN(2) == 0 {
			if rel, err := filepath.Rel(root, dir()); err == nil {
				view = append(view, rel)
			}
		}
		endedBoth(t, root, since, view, before)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// What was seen spares the listing of folders that are as they were, or this is all for
// nothing; and what is too young or lies elsewhere is not kept.
func TestSeenSpares(t *testing.T) {
	root := settledProject(t)
	before := lookSettled(t, root, nil)
	s := before.seen[root]
	for rel := range s.folders {
		if rel == "a/b" {
			f := s.folders[rel]
			f.entries = slices.DeleteFunc(slices.Clone(f.entries), func(e resolve.Entry) bool { return e.Name() == "c" })
			s.folders[rel] = f // what a listing would show
		}
	}
	since := fileTime(t)
	put(t, root+"/a/b/c/.envrc", "evil")
	if got, _ := Ended(t.Context(), Project{Root: sandbox.HostPath(root)}, nil, since, time.Time{}, heldList{}, before); slices.Contains(got, "a/b/c/.envrc") {
		t.Error("a/b was listed, though no name in it came or went")
	}

	young := LookBefore(t.Context(), settledProject(t), nil)
	for at, s := range young.seen {
		if s != nil && len(s.folders) > 0 {
			t.Errorf("%s: folders of this second are kept: %v", at, s.folders)
		}
	}
	if dir, err := os.MkdirTemp("/dev/shm", "seen-"); err == nil {
		defer os.RemoveAll(dir)
		if b := LookBefore(t.Context(), dir, nil); !resolve.KeepsTimes(dir) && b.seen[dir] != nil {
			t.Error("folders of a file system are kept whose times are not believed")
		}
	}
	s = &seen{dev: s.dev + 1, before: time.Now().Add(time.Hour), folders: map[string]seenFolder{}}
	w := &walk{ctx: t.Context(), root: root, seeing: s}
	w.see("a", resolve.Stat{Dev: s.dev - 1}, nil, false, nil)
	if len(s.folders) > 0 {
		t.Error("a folder of another file system than the top's is kept")
	}
}

// A session's own stubs are left out, and nothing beside them.
func TestSeenLeavesOwnStubsOut(t *testing.T) {
	root := settledProject(t)
	must(t, os.Mkdir(root+"/.idea", 0o755))
	own := map[string]bool{".idea": true}
	before := lookSettled(t, root, own)
	since := fileTime(t)
	put(t, root+"/.idea/workspace.xml", "x")
	put(t, root+"/.vscode/tasks.json", "x")
	p := Project{Root: sandbox.HostPath(root)}
	got, _ := Ended(t.Context(), p, nil, since, time.Time{}, heldList{}, before)
	if !slices.Contains(got, ".vscode/tasks.json") || slices.Contains(got, ".idea/workspace.xml") {
		t.Errorf("without stubs: %q", got)
	}
	got, _ = Ended(t.Context(), p, nil, since, time.Time{}, heldList{}, before.Everything())
	if !slices.Contains(got, ".vscode/tasks.json") || !slices.Contains(got, ".idea/workspace.xml") {
		t.Errorf("everything: %q", got)
	}
}
