package main

import (
	"context"
	"path/filepath"
	"slices"

	"cloister/bench/listed"
	"cloister/bench/overlays"
	"cloister/bench/working"
)

func measureKept(ctx context.Context, w *world) error {
	o := overlays.Options{Dir: filepath.Join(w.dir, "kept"), Views: w.raw.User == "root", Add: w.raw.add}
	sizes := overlays.Sizes()
	switch {
	case w.short:
		sizes = []overlays.Size{{Files: 500, Changed: 10, Rounds: 1}}
	case w.quick:
		sizes = sizes[:1]
	case !w.million:
		sizes = slices.DeleteFunc(sizes, func(s overlays.Size) bool { return s.Files == overlays.Million })
	}
	return overlays.All(ctx, o, sizes)
}

// keptBudgets are those of kept workspaces.
func keptBudgets() []budget {
	var out []budget
	of := func(what string) string { return overlays.Subject(what, overlays.Files, overlays.Changed) }
	for _, b := range []struct {
		title, what string
		most        float64
	}{
		{"a checkpoint of a stopped workspace", "checkpoint, stopped", 5},
		{"a checkpoint of a running one", "checkpoint, live", 30},
		{"the same, held still", "held still for it", 30},
		{"restore", "restore", 10},
		{"diff", "diff", 15},
		{"ten forks, as root to ten mounted views", "ten forks", 50},
		{"apply of 200 files", "apply", 100},
	} {
		out = append(out, budget{title: b.title, subject: of(b.what), most: b.most, unit: "ms"})
	}
	for _, peer := range []string{"cp -a --reflink=auto", "git stash", "btrfs snapshot", "cp -a --reflink, btrfs", "cp -a --reflink, xfs"} {
		out = append(out, budget{
			title: "a checkpoint of a stopped workspace", subject: of("checkpoint, stopped"), peer: peer, inverse: true,
		})
	}
	return append(out,
		budget{title: "restore", subject: of("restore"), peer: "git stash pop", inverse: true},
		budget{title: "diff", subject: of("diff"), peer: "git diff", inverse: true})
}

// workBudgets hold an overlay against a live workspace.
func workBudgets() []budget {
	var out []budget
	for _, step := range working.Steps {
		out = append(out, budget{
			title: step.Title + ", overlay", subject: step.Title, contender: working.InOverlay, peer: working.InLive, most: 1.15,
		})
	}
	return out
}

func measureWorking(ctx context.Context, w *world) error {
	if w.short {
		return nil // it takes minutes, and the words that it runs are those of other measurements
	}
	if _, err := w.guardian(ctx, 9); err != nil {
		return err
	}
	rounds := 5
	if w.quick {
		rounds = 3
	}
	return working.Measure(ctx, working.Options{
		Dir: filepath.Join(w.dir, "home", "work"), Rounds: rounds, In: w.in, Cloister: w.cloister, Add: w.raw.add,
	})
}

// ofTime reports whether a run measured kept workspaces alone, which have a page of their own.
// So have the costs of lists.
func (r *raw) ofTime() bool {
	return (r.hasTime() || r.has(listed.Subjects[0].Title)) && !r.has("start")
}

func (r *raw) has(subject string) bool {
	return slices.ContainsFunc(r.Series, func(s series) bool { return s.Subject == subject })
}

func (r *raw) hasTime() bool { return r.has(keptSubject()) || r.has(working.Steps[0].Title) }

func keptSubject() string { return overlays.Subject("diff", overlays.Files, overlays.Changed) }

// timeDocument is docs/time-figures.md: the newest run of kept workspaces of each kind of
// user, and the newest of work in them.
func timeDocument(dir string) ([]byte, error) {
	runs, err := runsOf(dir)
	if err != nil {
		return nil, err
	}
	page := overlays.Page(newestRuns(runs, keptSubject()), newestRuns(runs, working.Steps[0].Title),
		plain(keptBudgets()), plain(workBudgets()))
	return []byte(page), nil
}

// listsDocument is docs/lists-figures.md: the newest run of each kind of user.
func listsDocument(dir string) ([]byte, error) {
	runs, err := runsOf(dir)
	if err != nil {
		return nil, err
	}
	return []byte(listed.Page(newestRuns(runs, listed.Subjects[0].Title))), nil
}

func measureListed(ctx context.Context, w *world) error {
	if _, err := w.guardian(ctx, 9); err != nil {
		return err
	}
	return listed.Measure(ctx, listed.Options{
		Dir: filepath.Join(w.dir, "home", "lists"), Rounds: w.rounds(5), Short: w.short, In: w.in, Add: w.raw.add,
		Cloister: w.cloister, Bench: filepath.Join(w.bin, "bench"),
	})
}

// newestRuns are the newest run with a subject of each kind of user.
func newestRuns(runs []named, subject string) (out []overlays.Run) {
	for _, who := range []struct{ user, name string }{{"root", "root"}, {"user", "an ordinary user"}} {
		r := newestOf(runs, who.user, subject)
		if r == nil {
			continue
		}
		r.Who, r.Full = who.name, newestOf(runs, who.user, fullSubject())
		out = append(out, *r)
	}
	return out
}

// fullSubject is only in a run of all sizes.
func fullSubject() string { return overlays.Subject("diff", 1000, overlays.Changed) }

func newestOf(runs []named, user, subject string) *overlays.Run {
	for _, n := range slices.Backward(runs) {
		if n.User != user || !n.has(subject) {
			continue
		}
		r := &overlays.Run{Where: n.where()}
		for _, s := range n.Series {
			r.Series = append(r.Series, overlays.Series{Subject: s.Subject, Contender: s.Contender, Median: s.median(), Least: s.at(0)})
		}
		return r
	}
	return nil
}

func plain(list []budget) (out []overlays.Budget) {
	for _, b := range list {
		out = append(out, overlays.Budget{Title: b.title, Subject: b.subject, Contender: b.contender, Peer: b.peer, Most: b.most})
	}
	return out
}
