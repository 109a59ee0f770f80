package corpus

import (
	"strings"

	"cloister/escape"
)

func af08() escape.Case {
	return escape.Case{
		ID: "AF-08", Class: "old-style remotes, alternates, replace refs, attributes, info",
		Attack: "lead git of the host elsewhere by what it still reads in .git: remotes and branches of old, alternates, grafts, attributes, replaced objects, a history cut off",
		Source: "independent audit; gitrepository-layout(5)", Layers: []string{"protect", "the list at the end"},
		Host: between("", func(r *ruled) []escape.Finding {
			r.host(newRepository + "; git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m second; rm -rf .git/branches .git/info; git init -q --bare evil")
			res := r.run("sh", "-c", quietly(
				"mkdir -p .git/remotes .git/branches .git/info", "echo 'URL: evil' >.git/remotes/origin", "echo evil >.git/branches/origin", "echo /x >.git/objects/info/alternates",
				"mv .git/objects/info .git/objects/i2", "rm -rf .git/objects/info", "git rev-parse HEAD HEAD~1 | tr '\\n' ' ' >.git/info/grafts", "echo '* diff=x' >.git/info/attributes",
				"git replace HEAD HEAD~1", "echo bad >.git/strange", "git rev-parse HEAD >.git/shallow", "rmdir .git/objects .git/refs", "mv .git/refs .git/r", "mv .git/objects .git/o"))
			push := r.host("git push origin HEAD:x")
			var out []escape.Finding
			for _, name := range []string{".git/remotes/origin", ".git/branches/origin", ".git/info/grafts", ".git/info/attributes"} {
				out = append(out, found("not made: "+name, !r.has(name), "it is there"))
			}
			for _, name := range []string{".git/refs/replace/", ".git/strange", ".git/shallow"} {
				out = append(out, found("told of "+name, strings.Contains(res.Stderr, "\n  "+name), "%s", res.Stderr))
			}
			clean(r.project + "/.git/shallow")
			packed := r.run("sh", "-c", quietly("git replace -f HEAD HEAD~1", "git pack-refs --all"))
			whole := r.host("rm -rf .git/refs/replace; sed -i '/replace/d' .git/packed-refs; git fsck")
			r.host(afresh + "; git init -q --bare evil; mkdir -p .git/branches; echo evil >.git/branches/origin")
			control := r.host("git push origin HEAD:x")
			return append(out, worked("the session runs", res),
				found("alternates lead nowhere", r.text(".git/objects/info/alternates") != "/x\n", "%s", r.text(".git/objects/info/alternates")),
				found("nothing is pushed elsewhere", push.Status != 0, "%s%s", push.Stdout, push.Stderr),
				found("told of replaced objects that are packed", strings.Contains(packed.Stderr, "\n  .git/packed-refs"), "%s", packed.Stderr),
				worked("the repository is whole", whole), worked("control: such a remote is followed", control))
		}),
	}
}
