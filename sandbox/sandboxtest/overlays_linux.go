package sandboxtest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/workspace"
)

// overlays: what is written over the project stays in the layers that were named, in the
// form that overlayfs gives it, whichever driver laid them. The project and the layers below
// stay as they are, and nothing inside leads to where the layers lie.
func overlays(t *testing.T, h *Harness) {
	for name, text := range map[string]string{"changed": "old", "gone": "x", "deep/kept": "x", "whole/old": "x"} {
		h.Write(t, name, text)
	}
	store := filepath.Join(filepath.Dir(h.Home), "layers")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"up", "work", "below", "home", "homework"} {
		if err := os.Mkdir(filepath.Join(store, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.Write(t, filepath.Join(store, "below/layer"), "of the layer")
	upper := func(dir, work string, lower ...string) *sandbox.Upper {
		return &sandbox.Upper{Store: sandbox.HostPath(store), Dir: dir, Work: work, Lower: lower}
	}
	laid := func(o *workspace.Options) {
		o.Overlay = true
		o.Uppers = workspace.Uppers{Project: upper("up", "work", "below"), Home: upper("home", "homework")}
	}
	out := h.Run(t, Options{View: laid}, "sh", "-c", `cat layer; echo new >changed; rm gone
rm -r whole; mkdir whole; echo x >whole/new; echo over >layer; chmod 750 deep; echo home >~/said
grep -c '`+store+`' /proc/self/mountinfo; ls -d '`+store+`' 2>&1 >/dev/null | wc -l
mknod evil c 0 0 2>/dev/null && echo forged; ls`)
	want := "of the layer0\n1\nchanged\ndeep\nlayer\nwhole\n"
	if out.Err != nil || out.Stdout != want {
		t.Fatalf("%+v", out)
	}
	for name, want := range map[string]string{"changed": "old", "gone": "x", "whole/old": "x"} {
		if got := read(t, filepath.Join(h.Project, name)); got != want {
			t.Errorf("%s of the project is %q, want %q", name, got, want)
		}
	}
	kept := map[string]string{
		"below/layer": "of the layer", "up/changed": "new\n", "up/layer": "over\n",
		"up/whole/new": "x\n", "home/said": "home\n",
	}
	again := "home\n"
	if h.copies { // the home ends with its box
		delete(kept, "home/said")
		again = ""
	}
	for name, want := range kept {
		if got := read(t, filepath.Join(store, name)); got != want {
			t.Errorf("%s of the layers is %q, want %q", name, got, want)
		}
	}
	layered(t, h.Project, store, h.copies)
	out = h.Run(t, Options{View: laid}, "sh", "-c", "cat changed layer whole/new; cat ~/said; ls")
	if want := "new\nover\nx\n" + again + "changed\ndeep\nlayer\nwhole\n"; out.Err != nil || out.Stdout != want {
		t.Errorf("a second time: %+v", out)
	}
	inMemory := func(o *workspace.Options) { o.Overlay, o.Uppers = true, workspace.Uppers{} }
	out = h.Run(t, Options{View: inMemory}, "sh", "-c",
		"cat changed gone; echo new >changed; rm gone; cat changed; ls")
	if out.Err != nil || out.Stdout != "oldxnew\nchanged\ndeep\nwhole\n" ||
		read(t, filepath.Join(h.Project, "changed")) != "old" {
		t.Errorf("in memory: %+v", out)
	}
}

// layered looks at how an upper has what was removed, made and made anew.
func layered(t *testing.T, project, store string, copies bool) {
	t.Helper()
	var whose, st unix.Stat_t
	if err := unix.Lstat(project, &whose); err != nil {
		t.Fatal(err)
	}
	err := unix.Lstat(filepath.Join(store, "up/gone"), &st)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		t.Errorf("what was removed is %o %d, %v: no whiteout", st.Mode, st.Rdev, err)
	}
	err = unix.Lstat(filepath.Join(store, "up/whole/new"), &st)
	if err != nil || st.Uid != whose.Uid || st.Gid != whose.Gid {
		t.Errorf("a new file is of %d:%d, %v; the project is of %d:%d", st.Uid, st.Gid, err, whose.Uid, whose.Gid)
	}
	if copies { // what was in it is named by itself
		if err := unix.Lstat(filepath.Join(store, "up/whole/old"), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
			t.Errorf("what was in a folder that was made anew: %o, %v", st.Mode, err)
		}
		return
	}
	opaque := make([]byte, 8)
	n, err := unix.Lgetxattr(filepath.Join(store, "up/whole"), "user.overlay.opaque", opaque)
	if err != nil || string(opaque[:n]) != "y" {
		t.Errorf("a folder that was made anew is not opaque: %q, %v", opaque, err)
	}
}
