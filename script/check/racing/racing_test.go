package racing_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/script/check/racing"
)

func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	var list strings.Builder
	add := func(path, text string, test bool, imports ...string) {
		name := path + ".go"
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package x\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := map[string]any{"ImportPath": path, "Dir": dir, "Imports": imports, "GoFiles": []string{name}}
		if test {
			p = map[string]any{"ImportPath": path, "Dir": dir, "XTestImports": imports, "XTestGoFiles": []string{name}}
		}
		line, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		list.Write(line)
	}
	add("alone", `func f() { defer f() }`, false, "strings")
	add("starts", `func f() { go f() }`, false)
	add("group", `func f(w interface{ Go(func()) }) { w.Go(nil) }`, false)
	add("test", `func TestA(t interface{ Parallel() }) { t.Parallel() }`, true)
	add("programs", `import _ "os/exec"`, false)
	add("pointers", `import _ "unsafe"`, false)
	add("above", ``, false, "middle")
	add("middle", ``, false, "alone", "starts")
	add("tests", ``, true, "middle")
	add("pure", ``, true, "alone", "pointers") // of the pointers of others their own tests are told
	got, err := racing.Programs(list.String())
	want := []string{"above", "group", "middle", "pointers", "programs", "starts", "test", "tests"}
	if names := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v; want %v", names, err, want)
	}
	if _, err := racing.Programs(`{"ImportPath":"x","Dir":"/nowhere","GoFiles":["x.go"]}`); err == nil {
		t.Error("a file that cannot be read starts nothing")
	}
}
