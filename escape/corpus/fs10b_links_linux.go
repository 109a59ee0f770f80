package corpus

import (
	"os"
	"strings"

	"cloister/escape"
)

func fs10b() escape.Case {
	return escape.Case{
		ID: "FS-10b", Class: "links in the git folder", Attack: "have git of the host write its journal, with a branch's name that a shell would run, through a link into a file of the person's: links are listed, and cloister's own git does not go through them",
		Source: "attack on this code: .git/logs/HEAD as a link to ~/.bashrc", Layers: []string{"the list at the end", "host git"},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			victim := r.base + "/bashrc"
			if err := os.WriteFile(victim, []byte("# mine\n"), 0o644); err != nil {
				return escape.NoHost("make a file of the person's", err)
			}
			r.host("git init -q -b main . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x")
			links := []string{".git/logs/HEAD", ".git/FETCH_HEAD", ".git/COMMIT_EDITMSG", ".git/logs/refs/heads/fs10b"}
			script := "git symbolic-ref HEAD 'refs/heads/;touch${IFS}fs10b' && mkdir -p .git/logs/refs/heads"
			for _, l := range links {
				script += "; rm -f " + l + "; ln -s " + victim + " " + l
			}
			res := r.run("sh", "-c", script)
			out := []escape.Finding{found("the links are made", res.Status == 0, "status %d: %s", res.Status, res.Stderr)}
			recorded := r.cloister("audit", "tail", "-n", "0", "--json", "--kind", "file.autorun_changed")
			for _, l := range links {
				out = append(out, found("told of "+l, strings.Contains(res.Stderr, l), "%s", res.Stderr),
					found("recorded "+l, strings.Contains(recorded.Stdout, l), "%s", recorded.Stdout))
			}
			branch := r.cloister("run", "-C", r.project, "-b", "fs10b", "--", "true")
			text, err := os.ReadFile(victim)
			out = append(out,
				found("cloister's git refuses, and says where it leads", branch.Status != 0 && strings.Contains(branch.Stderr, victim), "status %d: %s", branch.Status, branch.Stderr),
				found("the person's file is as it was", err == nil && string(text) == "# mine\n", "%v %q", err, text))
			// What is not there yet, by ways whose .. are not what they look like.
			absent := r.base + "/zshenv"
			for _, to := range []string{r.project + "/.git/../../zshenv", "../../../refs/heads/d/../../zshenv"} {
				r.host("find .git -type l -delete; git symbolic-ref HEAD refs/heads/main; mkdir -p .git/logs/refs/heads; ln -s ../.. .git/refs/heads/d; ln -s " + to + " .git/logs/refs/heads/new")
				res := r.cloister("run", "-C", r.project, "-b", "new", "--", "true")
				_, err := os.Lstat(absent)
				out = append(out, found("nothing is made by way of "+to, res.Status != 0 && os.IsNotExist(err), "status %d: %s; %v", res.Status, res.Stderr, err))
			}
			r.host("rm .git/refs/heads/d; git branch new; rm -f " + absent)
			_, err = os.Lstat(absent)
			r.host("git branch -D new; ln -sf " + r.project + "/.git/../../zshenv .git/logs/refs/heads/new; git branch new")
			_, made := os.Lstat(absent)
			out = append(out, found("control: git of the host makes it", os.IsNotExist(err) && made == nil, "%v, %v", err, made))
			r.host("git branch -D new; rm -f .git/logs/HEAD; ln -s " + victim + " .git/logs/HEAD; git symbolic-ref HEAD 'refs/heads/;touch${IFS}fs10b'")
			r.host("git -c user.name=a -c user.email=a@b commit -q --allow-empty -m y")
			text, err = os.ReadFile(victim)
			out = append(out, found("control: git of the host writes through", err == nil && string(text) != "# mine\n", "%v %q", err, text))
			r.host("find .git -type l -delete; git symbolic-ref HEAD refs/heads/main")
			good := r.cloister("run", "-C", r.project, "-b", "fs10b", "--", "true")
			return append(out, found("control: without them it makes the working tree", good.Status == 0, "status %d: %s", good.Status, good.Stderr))
		}),
	}
}
