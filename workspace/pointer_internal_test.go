package workspace

import "testing"

func FuzzParsePointer(f *testing.F) {
	f.Add("gitdir: ../x\n", "gitdir: ")
	f.Add("../..\n", "")
	f.Fuzz(func(t *testing.T, text, prefix string) {
		path, err := parsePointer(text, prefix)
		if err == nil && (path == "" || len(path) > 4096) {
			t.Errorf("accepted %q", path)
		}
	})
}
