package corpus

import (
	"fmt"
	"strings"

	"cloister/escape"
)

func fs13() escape.Case {
	tree := func(in escape.Inside) string { return in.Home + "/src/tree" }
	return escape.Case{
		ID: "FS-13", Class: "worktree pointer", Attack: "in a linked worktree: rewrite .git, gitdir, commondir and the main tree's HEAD; start with a planted pointer",
		Source: "zero #805, nono #1773 (confused deputy)", Layers: []string{"protect"},
		Prepare: func(w *escape.World) error {
			if res, err := w.Exec("git", "worktree", "add", "-q", "-b", "tree", tree(w.Inside)); err != nil || res.Status != 0 {
				return fmt.Errorf("make worktree: %w %s", err, res.Stderr)
			}
			return nil
		},
		Flags: func(w *escape.World) []string { return []string{"-C", tree(w.Inside)} },
		Tries: func(in escape.Inside) []escape.Try {
			if in.Control {
				_ = below(tree(in)+"/.git", "gitdir: nowhere")
				_ = below(in.Project+"/.git/worktrees/tree/gitdir", "nowhere")
			}
			var out []escape.Try
			for _, path := range []string{tree(in) + "/.git", in.Project + "/.git/worktrees/tree/gitdir", in.Project + "/.git/worktrees/tree/commondir",
				in.Project + "/.git/worktrees/tree/config.worktree", in.Project + "/.git/HEAD", in.Project + "/.git/config", in.Project + "/.git/hooks/pre-commit"} {
				out = append(out, held("write "+strings.TrimPrefix(path, in.Home+"/src/"), func() error { return create(path, "FS-13") }))
			}
			return append(out, on("reach the main working tree", func() error { return appendTo(in.Project+"/main.go", "FS-13") }))
		},
		Host: func(w *escape.World) []escape.Finding {
			planted := w.Home + "/src/planted"
			if err := w.Write(planted+"/.git", "gitdir: "+w.Outside+"\n"); err != nil {
				return escape.NoHost("plant a pointer", err)
			}
			defer clean(planted, w.Outside+"/HEAD", w.Outside+"/objects", w.Outside+"/refs")
			bare := w.Outcome([]string{"-C", planted}, "true")
			for _, f := range []string{"/HEAD", "/objects/x", "/refs/x"} {
				if err := w.Write(w.Outside+f, "ref: refs/heads/main\n"); err != nil {
					return escape.NoHost("plant a pointer", err)
				}
			}
			whole := w.Outcome([]string{"-C", planted}, "cat", w.Outside+"/canary")
			return []escape.Finding{
				found("a pointer to no git folder does not start", bare.Status == 125, "status %d: %s", bare.Status, bare.Stderr),
				found("a pointer that is not pointed back to does not start", whole.Status == 125 && strings.Contains(whole.Stderr, "point back"), "status %d: %s", whole.Status, whole.Stderr),
			}
		},
	}
}
