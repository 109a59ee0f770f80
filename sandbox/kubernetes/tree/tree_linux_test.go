package tree_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes/tree"
	"cloister/state/layers"
)

// place is a project with an overlay over it, and a pod's folder.
type place struct {
	t    *testing.T
	dir  string
	tree tree.Tree
}

func begin(t *testing.T, files map[string]string) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir()}
	for _, d := range []string{"project", "store/upper", "store/work"} {
		if err := os.MkdirAll(filepath.Join(p.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.tree = tree.Tree{Source: p.at("project"), Target: "/p", Upper: &sandbox.Upper{
		Store: sandbox.HostPath(p.at("store")), Dir: "upper", Work: "work"}}
	for name, text := range files {
		write(t, filepath.Join(p.at("project"), name), text)
	}
	return p
}

func (p *place) at(name string) string { return filepath.Join(p.dir, name) }

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pod copies the tree into a new folder, has it changed and brings it back.
func (p *place) pod(change func(root string)) []string {
	p.t.Helper()
	root, copies := p.fill()
	change(root)
	var back bytes.Buffer
	if _, err := copies.Pack(&back); err != nil {
		p.t.Fatal(err)
	}
	left, err := tree.Receive(&back, []tree.Tree{p.tree})
	if err == nil {
		err = tree.Discard([]tree.Tree{p.tree})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return left
}

func (p *place) fill() (string, *tree.Copies) {
	p.t.Helper()
	root, err := os.MkdirTemp(p.dir, "pod")
	if err != nil {
		p.t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := tree.Send(p.t.Context(), &sent, []tree.Tree{p.tree}); err != nil {
		p.t.Fatal(err)
	}
	copies, err := tree.Fill(&sent, []string{root})
	if err != nil {
		p.t.Fatal(err)
	}
	return root, copies
}

// changes are what apply would be asked for.
func (p *place) changes() string {
	p.t.Helper()
	s, err := layers.Open(p.tree.Source, []string{p.at("store/upper")})
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	list, err := s.Changes(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		if !c.Implied {
			out = append(out, string(c.Op)+" "+c.Path)
		}
	}
	return strings.Join(out, "\n")
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestThereAndBack(t *testing.T) {
	p := begin(t, map[string]string{"a": "1", "b": "2", "dir/c": "3", "dir/d": "4", "gone/x": "5", "gone/y": "6", "same": "7"})
	do(t, os.Symlink("a", filepath.Join(p.at("project"), "link")))
	p.pod(func(string) {})
	if got := p.changes(); got != "" {
		t.Fatalf("nothing was changed: %s", got)
	}
	p.pod(func(root string) {
		write(t, filepath.Join(root, "a"), "other")
		write(t, filepath.Join(root, "new/deep/e"), "8")
		do(t, os.RemoveAll(filepath.Join(root, "gone")), os.Remove(filepath.Join(root, "dir/c")),
			os.Chmod(filepath.Join(root, "b"), 0o755), os.Remove(filepath.Join(root, "link")), os.Symlink("b", filepath.Join(root, "link")))
	})
	const want = "modified a\nmode b\ndeleted dir/c\ndeleted gone/x\ndeleted gone/y\nmodified link\nadded new/deep/e"
	if got := p.changes(); got != want {
		t.Fatalf("%s\nwant\n%s", got, want)
	}
	p.pod(func(root string) { // what was changed before is there, and stays
		if text, err := os.ReadFile(filepath.Join(root, "a")); err != nil || string(text) != "other" {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := os.Stat(filepath.Join(root, "gone")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("what was removed is back")
		}
		write(t, filepath.Join(root, "gone/x"), "5")
		do(t, os.Remove(filepath.Join(root, "new/deep/e")))
	})
	const after = "modified a\nmode b\ndeleted dir/c\ndeleted gone/y\nmodified link\nadded new/deep"
	if got := p.changes(); got != after {
		t.Fatalf("%s\nwant\n%s", got, after)
	}
}

func TestHeld(t *testing.T) {
	p := begin(t, map[string]string{"secret": "s3cr3t", "conf/run": "1", "conf/free": "2", "hidden/x": "3"})
	p.tree.Covers = map[string]tree.Cover{"secret": {}, "hidden": {Folder: true}}
	p.tree.Held = []string{"secret", "hidden", "conf/run"}
	left := p.pod(func(root string) {
		if text, err := os.ReadFile(filepath.Join(root, "secret")); err != nil || len(text) > 0 {
			t.Errorf("what is hidden is there: %q, %v", text, err)
		}
		if list, err := os.ReadDir(filepath.Join(root, "hidden")); err != nil || len(list) > 0 {
			t.Errorf("what is hidden is there: %v, %v", list, err)
		}
		do(t, os.Remove(filepath.Join(root, "secret")), os.RemoveAll(filepath.Join(root, "conf")))
		write(t, filepath.Join(root, "conf"), "a file instead of its folder")
		write(t, filepath.Join(root, "beside"), "4")
	})
	if want := []string{"/p/conf", "/p/secret"}; !slices.Equal(left, want) {
		t.Errorf("left out: %v, want %v", left, want)
	}
	if got := p.changes(); got != "added beside" {
		t.Error(got)
	}
}

// TestOddSpellings brings nothing to a protected path by a name that leads there, and no attribute or list.
func TestOddSpellings(t *testing.T) {
	dir := tar.Header{Name: "0/.git", Typeflag: tar.TypeDir}
	control := begin(t, map[string]string{".git/hooks/x": "1", ".git/y": "2"})
	control.pod(func(root string) { write(t, filepath.Join(root, ".git/hooks/x"), "2") })
	if got := control.changes(); got != "modified .git/hooks/x" {
		t.Errorf("the control, where nothing is protected: %q", got)
	}
	for name, list := range map[string][]tar.Header{
		"plain":     {dir, {Name: "0/.git/hooks", Typeflag: tar.TypeDir}, {Name: "0/.git/hooks/x"}},
		"dots":      {dir, {Name: "0/./.git/hooks/x"}},
		"back":      {dir, {Name: "0/.git/y/../hooks/x"}},
		"slashes":   {dir, {Name: "0/.git//hooks/x"}},
		"link":      {{Name: "0/.git", Typeflag: tar.TypeSymlink, Linkname: "y"}},
		"whiteout":  {{Name: "0/.git", Typeflag: tar.TypeChar}},
		"file":      {{Name: "0/.git", Typeflag: tar.TypeReg}},
		"opaque":    {{Name: "0/.git", Typeflag: tar.TypeDir, PAXRecords: map[string]string{"CLOISTER.opaque": "y"}}},
		"hard link": {{Name: "0/a"}, dir, {Name: "0/.git/hooks", Typeflag: tar.TypeLink, Linkname: "a"}},
		"attributes": {{Name: "0/.git", Typeflag: tar.TypeDir, PAXRecords: map[string]string{
			"SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.user.overlay.redirect": "/y"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, map[string]string{".git/hooks/x": "1", ".git/y": "2"})
			p.tree.Held = []string{".git/hooks"}
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range list {
				if h.Format, h.Mode = tar.FormatPAX, 0o755; h.Typeflag == 0 {
					h.Typeflag = tar.TypeReg
				}
				do(t, w.WriteHeader(&h))
			}
			do(t, w.Close())
			_, err := tree.Receive(&b, []tree.Tree{p.tree})
			if got := strings.TrimPrefix(p.changes(), "added a"); got != "" && got != "mode .git" {
				t.Errorf("%v, and it brought: %s", err, got)
			}
		})
	}
}

// TestHostile unpacks what no pod of ours would send.
func TestHostile(t *testing.T) {
	long := strings.Repeat("d/", 400) + "x"
	for name, list := range map[string][]tar.Header{
		"up":          {{Name: "0/../x", Typeflag: tar.TypeReg}},
		"absolute":    {{Name: "0//etc/x", Typeflag: tar.TypeReg}},
		"no tree":     {{Name: "1/x", Typeflag: tar.TypeReg}},
		"no number":   {{Name: "x", Typeflag: tar.TypeReg}},
		"sign":        {{Name: "+0/x", Typeflag: tar.TypeReg}},
		"device":      {{Name: "0/x", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
		"block":       {{Name: "0/x", Typeflag: tar.TypeBlock}},
		"pipe":        {{Name: "0/x", Typeflag: tar.TypeFifo}},
		"by a link":   {{Name: "0/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "0/l/x", Typeflag: tar.TypeReg}},
		"twice":       {{Name: "0/x", Typeflag: tar.TypeReg}, {Name: "0/x", Typeflag: tar.TypeReg}},
		"hard link":   {{Name: "0/x", Typeflag: tar.TypeLink, Linkname: "../../project/a"}},
		"deep":        {{Name: "0/" + long, Typeflag: tar.TypeReg}},
		"no folder":   {{Name: "0/d/x", Typeflag: tar.TypeReg}},
		"sparse lies": {{Name: "0/x", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"CLOISTER.sparse": "5 9+9"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, map[string]string{"a": "1"})
			write(t, p.at("store/upper/kept"), "2")
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range list {
				h.Format, h.Mode = tar.FormatPAX, 0o644
				do(t, w.WriteHeader(&h))
			}
			do(t, w.Close())
			if _, err := tree.Receive(&b, []tree.Tree{p.tree}); err == nil {
				t.Error("it is taken")
			}
			if got := p.changes(); got != "added kept" {
				t.Errorf("the layer is another: %s", got)
			}
		})
	}
	p := begin(t, map[string]string{"a": "1"})
	write(t, p.at("store/upper/kept"), "2")
	if _, err := tree.Receive(strings.NewReader("cut off"), []tree.Tree{p.tree}); err == nil {
		t.Error("half an archive is taken")
	}
	if got := p.changes(); got != "added kept" {
		t.Error(got)
	}
}

// TestSetID takes no power from a pod.
func TestSetID(t *testing.T) {
	p := begin(t, nil)
	p.pod(func(root string) {
		write(t, filepath.Join(root, "s"), "x")
		do(t, os.Chmod(filepath.Join(root, "s"), 0o755|os.ModeSetuid|os.ModeSetgid))
	})
	if fi, err := os.Stat(p.at("store/upper/s")); err != nil || fi.Mode() != 0o755 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
}

// TestAgain packs nothing a second time where nothing happened since.
func TestAgain(t *testing.T) {
	p := begin(t, map[string]string{"a": "1"})
	root, copies := p.fill()
	for i, want := range []bool{false, true} {
		if same, err := copies.Pack(io.Discard); err != nil || same != want {
			t.Errorf("%d: %v, %v", i, same, err)
		}
	}
	write(t, filepath.Join(root, "a"), "2")
	if same, err := copies.Pack(io.Discard); err != nil || same {
		t.Errorf("%v, %v", same, err)
	}
}

// TestRandomTrees holds copies to what was in the pod, over many rounds of changes.
func TestRandomTrees(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := begin(t, nil)
		for range 30 {
			change(t, r, p.at("project"))
		}
		for round := range 5 {
			var want map[string]string
			p.pod(func(root string) {
				for range 1 + r.IntN(12) {
					change(t, r, root)
				}
				want = listing(t, root)
			})
			got, _ := p.fill()
			if now := listing(t, got); !maps.Equal(now, want) {
				t.Fatalf("seed %d, round %d:\n%v\nwant\n%v", seed, round, now, want)
			}
		}
	}
}

// change does one thing to a tree.
func change(t *testing.T, r *rand.Rand, root string) {
	t.Helper()
	name := root
	for range 1 + r.IntN(3) {
		name = filepath.Join(name, string(rune('a'+r.IntN(4))))
	}
	dir := filepath.Dir(name)
	if fi, err := os.Lstat(dir); err == nil && !fi.IsDir() {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return // a file is in the way
	}
	switch r.IntN(6) {
	case 0:
		do(t, os.RemoveAll(name))
	case 1:
		do(t, os.RemoveAll(name), os.Mkdir(name, 0o700+os.FileMode(r.IntN(64))))
	case 2:
		do(t, os.RemoveAll(name), os.Symlink(fmt.Sprint(r.IntN(9)), name))
	case 3:
		if fi, err := os.Lstat(name); err == nil && fi.Mode()&fs.ModeSymlink == 0 {
			do(t, os.Chmod(name, 0o700+os.FileMode(r.IntN(64))))
		}
	default:
		do(t, os.RemoveAll(name))
		write(t, name, strings.Repeat("x", r.IntN(5)))
	}
}

func listing(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		text := fi.Mode().String()
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text = to
		case fi.Mode().IsRegular():
			all, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += string(all)
		}
		out[strings.TrimPrefix(name, root)] = text
		return nil
	}))
	return out
}
