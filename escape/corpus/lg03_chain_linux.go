package corpus

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"cloister/escape"
)

func lg03() escape.Case {
	return escape.Case{
		ID: "LG-03", Class: "chain check", Attack: "edit, remove, reorder, repeat and cut off records in a copy: verify finds each",
		Source: "LG-03", Layers: []string{"audit"},
		Host: func(w *escape.World) []escape.Finding {
			copyAt := w.Base + "/state-copy"
			defer clean(copyAt)
			verify := func(change func(lines [][]byte) [][]byte) (escape.Result, error) {
				clean(copyAt)
				if err := os.CopyFS(copyAt, os.DirFS(w.Base+"/state")); err != nil {
					return escape.Result{}, err
				}
				files, err := filepath.Glob(copyAt + "/cloister/audit/*.jsonl")
				if err != nil || len(files) == 0 {
					return escape.Result{}, os.ErrNotExist
				}
				slices.Sort(files)
				last := files[len(files)-1]
				text, err := os.ReadFile(last)
				if err != nil {
					return escape.Result{}, err
				}
				lines := change(bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")))
				out := bytes.Join(lines, nil)
				if len(out) > 0 && out[len(out)-1] != '\n' {
					out = append(out, '\n')
				}
				if err := os.WriteFile(last, out, 0o600); err != nil {
					return escape.Result{}, err
				}
				state := w.Env["XDG_STATE_HOME"]
				w.Env["XDG_STATE_HOME"] = copyAt
				defer func() { w.Env["XDG_STATE_HOME"] = state }()
				return w.Exec(w.Cloister, "audit", "verify")
			}
			half := func(l [][]byte) int { return len(l) / 2 }
			var out []escape.Finding
			for _, t := range []struct {
				name   string
				change func([][]byte) [][]byte
			}{
				{"an edit", func(l [][]byte) [][]byte {
					l[half(l)] = bytes.Replace(l[half(l)], []byte(`"v":1`), []byte(`"v":1 `), 1)
					return l
				}},
				{"an edited verdict", func(l [][]byte) [][]byte {
					deny, allow := []byte(`"verdict":"deny"`), []byte(`"verdict":"allow"`)
					i := slices.IndexFunc(l, func(r []byte) bool { return bytes.Contains(r, deny) })
					if i < 0 { // nothing was denied where the case is tried alone
						i, deny, allow = slices.IndexFunc(l, func(r []byte) bool { return bytes.Contains(r, allow) }), allow, deny
					}
					l[i] = bytes.Replace(l[i], deny, allow, 1)
					return l
				}},
				{"a removal", func(l [][]byte) [][]byte { return slices.Delete(l, half(l), half(l)+1) }},
				{"another order", func(l [][]byte) [][]byte {
					l[half(l)], l[half(l)-1] = l[half(l)-1], l[half(l)]
					return l
				}},
				{"a repetition", func(l [][]byte) [][]byte { return slices.Insert(l, half(l), l[half(l)]) }},
				{"a cut tail", func(l [][]byte) [][]byte { return l[:len(l)-1] }},
				{"a long cut tail", func(l [][]byte) [][]byte { return l[:half(l)] }},
			} {
				res, err := verify(t.change)
				out = append(out, found("verify finds "+t.name, err == nil && res.Status == 1, "%v status %d: %s%s", err, res.Status, res.Stdout, res.Stderr))
			}
			res, err := verify(func(l [][]byte) [][]byte { return l })
			return append(out, found("control: the copy as it is is whole", err == nil && res.Status == 0, "%v status %d: %s%s", err, res.Status, res.Stdout, res.Stderr))
		},
	}
}
