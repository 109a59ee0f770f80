package homes_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cloister/workspace/homes"
)

func write(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHomes(t *testing.T) {
	data, outside := t.TempDir(), t.TempDir()
	noted, known, strange := homes.Of(data, "/p/noted"), homes.Of(data, "/p/known"), filepath.Join(homes.Dir(data), "0123456789abcdef")
	write(t, noted+"/.npm/_cacache/a", noted+"/go/pkg/mod/m@v1/f", noted+"/.claude.json", known+"/x", strange+"/x", outside+"/mine/keep")
	if err := homes.Note(data, "/p/noted"); err != nil {
		t.Fatal(err)
	}
	// A note that says another project than the home's is no word about it.
	if err := os.WriteFile(strange+".project", []byte("/p/noted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{noted + "/.cache": outside, noted + "/.cargo": outside, noted + "/away": outside} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(noted+"/go/pkg/mod/m@v1", 0o500); err != nil {
		t.Fatal(err)
	}
	all, err := homes.List(data, []string{"/p/known", "/p/other"})
	if err != nil || len(all) != 3 {
		t.Fatalf("%d homes, %v", len(all), err)
	}
	for i, want := range []homes.Home{{Dir: strange}, {Dir: known, Project: "/p/known"}, {Dir: noted, Project: "/p/noted"}} {
		if all[i].Dir != want.Dir || all[i].Project != want.Project {
			t.Errorf("home %d is %+v, want %+v", i, all[i], want)
		}
	}
	h := all[2]
	if got, want := h.Caches(), []string{".npm/_cacache", "go/pkg/mod"}; !slices.Equal(got, want) {
		t.Errorf("its caches are %v, want %v", got, want)
	}
	if size := homes.Size(h.Dir); size < 3*4096 {
		t.Errorf("it has %d bytes", size)
	}
	for _, rel := range h.Caches() {
		if err := h.RemoveCache(rel); err != nil {
			t.Error(err)
		}
	}
	if left := h.Caches(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// A link that took a folder's place on the way is not followed.
	if err := os.RemoveAll(noted + "/go"); err != nil {
		t.Fatal(err)
	}
	write(t, outside+"/pkg/mod/keep")
	if err := os.Symlink(outside, noted+"/go"); err != nil {
		t.Fatal(err)
	}
	if err := h.RemoveCache("go/pkg/mod"); err == nil {
		t.Error("it followed a link")
	}
	if err := h.Remove(); err != nil {
		t.Error(err)
	}
	for _, p := range []string{outside + "/mine/keep", outside + "/pkg/mod/keep", known + "/x"} {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(noted + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
