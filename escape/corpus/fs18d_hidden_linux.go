package corpus

import (
	"strings"

	"cloister/escape"
)

func fs18d() escape.Case {
	return escape.Case{
		ID: "FS-18d", Class: "files hidden from the list", Attack: "make files that the host would obey where a look does not find them: in a folder that may be entered and not listed, in ones that are shut for now, in a repository without objects whose settings lie elsewhere",
		Source: "attack on this code; gitrepository-layout(5) (commondir)", Layers: []string{"the list at the end", "audit"},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			// git of the host takes "split" for a repository, with the aliases of "common".
			res := r.run("sh", "-c", `
				mkdir -p entered/.vscode shut/deep readable split common/objects common/refs/heads
				echo x >entered/.vscode/tasks.json; echo x >entered/.envrc; echo x >shut/deep/.envrc; echo x >readable/.envrc
				echo 'ref: refs/heads/x' >split/HEAD; echo ../common >split/commondir
				printf '[core]\n\trepositoryformatversion = 0\n[alias]\n\tobeyed = !echo yes\n' >common/config
				chmod 311 entered; chmod 0 shut; chmod 644 readable`)
			out := []escape.Finding{found("the command ran", res.Status == 0, "status %d: %s", res.Status, res.Stderr)}
			recorded := r.cloister("audit", "tail", "-n", "0", "--json", "--kind", "file.autorun_changed").Stdout
			for _, n := range []string{"entered", "shut", "readable", "split/commondir", "common/config"} {
				out = append(out, found("told of "+n, strings.Contains(res.Stderr, n), "%s", res.Stderr), found("recorded "+n, strings.Contains(recorded, n), "%.2000s", recorded))
			}
			again := r.run("sh", "-c", "for d in entered shut readable; do chmod 755 $d 2>/dev/null && test $(stat -c %a $d) = 755 && echo opened; cat $d/.envrc $d/deep/.envrc 2>/dev/null; done; echo '[alias] again = !id' >>common/config; echo end")
			out = append(out,
				found("the next one opens none of them", again.Stdout == "end\n", "%s%s", again.Stdout, again.Stderr),
				found("told of common/config by the next one", strings.Contains(again.Stderr, "common/config"), "%s", again.Stderr))
			entered := r.host("chmod 311 entered && cat entered/.envrc; chmod 755 entered shut readable").Stdout
			obeyed := r.host("cd split && git -c safe.bareRepository=all obeyed").Stdout
			held := r.host("cat shut/deep/.envrc readable/.envrc").Stdout
			return append(out,
				found("control: what was shut is there", held == "x\nx\n", "%q", held),
				found("control: such a folder is entered by a name in it", entered == "x\n", "%q", entered),
				found("control: git obeys such a repository", obeyed == "yes\n", "%q", obeyed))
		}),
	}
}
