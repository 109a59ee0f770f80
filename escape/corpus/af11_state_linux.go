package corpus

import "cloister/escape"

func af11() escape.Case {
	return escape.Case{
		ID: "AF-11", Class: "protection shed by state",
		Attack: "make the git folder of a submodule or of a nested repository none in one session, and write its settings and hooks in the next",
		Source: "independent audit", Layers: []string{"protect"},
		Host: between("", func(r *ruled) []escape.Finding {
			made := r.host(newRepository + "; git init -q -b main ../lib && git -C ../lib -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m l;" +
				"git -c protocol.file.allow=always submodule --quiet add ../lib lib; git -C lib config extensions.worktreeConfig true; git init -q nest; git -C nest config extensions.worktreeConfig true;" +
				"cp .git/modules/lib/config ../lib.config; cp nest/.git/config ../nest.config")
			first := r.run("sh", "-c", quietly("for g in .git/modules/lib nest/.git; do mv $g/HEAD $g/H; mv $g/objects $g/o; mv $g/refs $g/r; rm -rf $g/refs $g/objects/*; done"))
			second := r.run("sh", "-c", quietly("for g in .git/modules/lib nest/.git; do echo '[core] fsmonitor=x' >>$g/config; echo '[core] fsmonitor=x' >$g/config.worktree; echo x >$g/hooks/pre-commit; mv $g/config $g/c; rm -f $g/config; done",
				"mv .git/modules/lib .git/modules/l2", "mv .git/modules .git/m2", "mv nest/.git nest/g", "touch done"))
			same := r.host("cmp .git/modules/lib/config ../lib.config && cmp nest/.git/config ../nest.config && ! grep -q fsmonitor .git/modules/lib/config.worktree nest/.git/config.worktree 2>/dev/null")
			kept := r.host("test -d .git/modules/lib/objects && test -d .git/modules/lib/refs && test -d nest/.git/objects && test -d nest/.git/refs")
			return []escape.Finding{
				worked("the project is made", made), worked("the first session", first), worked("the second session", second), worked("the settings are as they were", same), worked("objects and refs are in their places", kept),
				found("no hook is made", !r.has(".git/modules/lib/hooks/pre-commit") && !r.has("nest/.git/hooks/pre-commit"), "one is"), found("control: the script came to its end", r.has("done"), "it did not"),
			}
		}),
	}
}
