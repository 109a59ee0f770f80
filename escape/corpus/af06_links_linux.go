package corpus

import "cloister/escape"

func af06() escape.Case {
	return escape.Case{
		ID: "AF-06", Class: "chain of links at a protected path",
		Attack: "replace, in the middle of a chain of links, what a protected name leads to, and make the target of one that leads nowhere",
		Source: "independent audit: .git/hooks -> ../hk -> hk.real, .vscode -> build/vs, .envrc -> ...", Layers: []string{"protect"},
		Host: between("", func(r *ruled) []escape.Finding {
			made := r.host(newRepository + "; rm -rf .git/hooks; ln -s ../hk .git/hooks; ln -s hk.real hk; mkdir -p hk.real build/vs.1 a b sub;" +
				"ln -s vs.1 build/vs; ln -s build/vs .vscode; echo x >build/vs.1/tasks.json; ln -s a/mid .envrc; ln -s ../b/real a/mid; echo x >b/real;" +
				"ln -s cfg/npmrc .npmrc; ln -s ../up sub/.envrc; ln -s b/../late up; mkdir scripts; echo x >scripts/hook; ln -s ../scripts/hook hk.real/pre-commit; echo x >free")
			res := r.run("sh", "-c", quietly(
				"rm -rf hk", "ln -sfn evil hk", "mv hk hk2", "echo bad >hk.real/post-checkout", "mv hk.real hr", "echo bad >scripts/hook", "rm -f scripts/hook", "mv scripts s2",
				"ln -sfn evil build/vs", "mv build/vs build/v2", "mv build b2", "echo bad >build/vs.1/tasks.json", "mv build/vs.1 build/x",
				"ln -sfn ../evil a/mid", "rm -f a/mid", "mv a a2", "echo bad >b/real", "rm -f b/real", "mv b b2",
				"mkdir -p cfg", "echo bad >cfg/npmrc", "rm -rf cfg", "ln -sfn evil up", "echo bad >late", "echo good >free", "touch done"))
			links := r.host("readlink hk build/vs a/mid up .npmrc hk.real/pre-commit")
			return []escape.Finding{
				worked("the project is made", made), worked("the session runs", res),
				found("every hop is as it was", links.Stdout == "hk.real\nvs.1\n../b/real\nb/../late\ncfg/npmrc\n../scripts/hook\n", "%s", links.Stdout),
				r.same("build/vs.1/tasks.json", "x\n"), r.same("b/real", "x\n"), r.same("scripts/hook", "x\n"),
				found("nothing is made where a link leads", !r.has("cfg/npmrc") && !r.has("late") && !r.has("hk.real/post-checkout"), "one of them is there"),
				found("control: the script came to its end, and beside them it can write", r.has("done") && r.text("free") == "good\n", "%s", r.text("free")),
			}
		}),
	}
}
