package corpus

import "cloister/escape"

func af12() escape.Case {
	return escape.Case{
		ID: "AF-12", Class: "hard link beside a protected file",
		Attack: "give a file a second name, wait until the person renames it to a protected one, or puts it among the hooks, and write by the second",
		Source: "independent audit", Layers: []string{"protect"},
		Host: between("hide: [secret.pem]", func(r *ruled) []escape.Finding {
			r.host(newRepository + "; echo x >env; echo x >hook; echo x >key; mkdir sub deep")
			first := r.run("sh", "-c", "ln env twin && ln hook sub/twin && ln key deep/twin && ln key2 x 2>/dev/null; echo x >free")
			r.host("mv env .envrc; mv hook .git/hooks/pre-commit; mv key secret.pem")
			second := r.run("sh", "-c", quietly("echo bad >twin", "echo bad >>sub/twin", "cat deep/twin >shown", "mv twin t2", "echo bad >t2", "mv sub s2", "echo bad >s2/twin", "echo good >free"))
			return []escape.Finding{
				worked("the links are made", first), worked("the second session", second), r.same(".envrc", "x\n"), r.same(".git/hooks/pre-commit", "x\n"),
				found("what is hidden is not shown by another name", r.text("shown") == "", "%q", r.text("shown")), found("control: a file of its own it can write", r.text("free") == "good\n", "%s", r.text("free")),
			}
		}),
	}
}
