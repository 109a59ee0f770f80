package bases_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/state/bases"
)

func open(t *testing.T, dir string) *bases.Kept {
	t.Helper()
	k, err := bases.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func want(t *testing.T, k *bases.Kept, path, text string) {
	t.Helper()
	got, known, err := k.Text(path)
	if err != nil || got != text || known != (text != "") {
		t.Errorf("%s is %q, %v, %v; want %q", path, got, known, err, text)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.texts"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTextsAreKeptAndForgotten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bases")
	k := open(t, dir)
	must(t, k.Keep(map[string]string{"a": "one", "b": "two"}))
	must(t, k.Keep(map[string]string{"c\xff": "three"}))
	fork := filepath.Join(filepath.Dir(dir), "fork")
	must(t, k.Link(fork))
	must(t, open(t, dir).Drop([]string{"a", "b", "x"}))
	again := open(t, dir)
	want(t, again, "a", "")
	want(t, again, "c\xff", "three")
	if n := len(files(t, dir)); n != 1 || again.Len() != 1 {
		t.Errorf("%d files and %d texts are left; want 1", n, again.Len())
	}
	// What one has of the other's files stays as it was.
	of := open(t, fork)
	must(t, of.Keep(map[string]string{"a": "other"}))
	want(t, of, "a", "other")
	want(t, of, "b", "two")
	want(t, open(t, dir), "a", "")
	want(t, open(t, dir), "c\xff", "three")
}

// What a crash or another program did to the files makes a text unknown, never another.
func TestATextThatIsNotWholeIsNotKnown(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, dir, pack string){
		"cut":       func(t *testing.T, _, pack string) { must(t, os.Truncate(pack, 2)) },
		"overwrite": func(t *testing.T, _, pack string) { must(t, os.WriteFile(pack, []byte("eno"), 0o600)) },
		"removed":   func(t *testing.T, _, pack string) { must(t, os.Remove(pack)) },
		"no index":  func(t *testing.T, dir, _ string) { must(t, os.WriteFile(filepath.Join(dir, "index.json"), nil, 0o600)) },
		"a way out": func(t *testing.T, dir, _ string) {
			const index = `{"a": {"pack": "../../x.texts", "at": 0, "size": 3, "digest": ""}}`
			must(t, os.WriteFile(filepath.Join(dir, "index.json"), []byte(index), 0o600))
		},
		"too large": func(t *testing.T, dir, pack string) {
			index := `{"a": {"pack": "` + filepath.Base(pack) + `", "at": 0, "size": 1152921504606846976, "digest": ""}}`
			must(t, os.WriteFile(filepath.Join(dir, "index.json"), []byte(index), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, open(t, dir).Keep(map[string]string{"a": "one"}))
			want(t, open(t, dir), "a", "one")
			harm(t, dir, files(t, dir)[0])
			k := open(t, dir)
			want(t, k, "a", "")
			must(t, k.Keep(map[string]string{"a": "new"}))
			want(t, open(t, dir), "a", "new")
		})
	}
}
