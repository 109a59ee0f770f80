package overlays

import (
	"fmt"
	"slices"
	"strings"
)

// Run is one run of the bench, as the page tells it.
type Run struct {
	Who    string // as whom it ran
	Where  string // when and on what
	Series []Series
	// Full is the newest run of all sizes: this one may be of the project of the budgets alone.
	Full *Run
}

// Series are the values of one contender on one subject: their median and the least.
type Series struct {
	Subject, Contender string
	Median, Least      float64
}

func (r *Run) find(subject, contender string) (Series, bool) {
	for _, s := range r.Series {
		if s.Subject == subject && s.Contender == contender {
			return s, true
		}
	}
	return Series{}, false
}

// Budget is a bound of one figure in milliseconds, or of its ratio to a peer's.
type Budget struct {
	Title, Subject, Contender, Peer string
	Most                            float64
}

// Page is what a reader is told of the newest runs of kept workspaces, and of work in them.
func Page(kept, work []Run, budgets, workBudgets []Budget) string {
	var b strings.Builder
	b.WriteString(`# Time: what it costs

<!-- Written by go run ./bench from docs/bench/*.json. Do not edit. -->

` + "`script/test time`" + ` measures again and writes this page (as root, in about half an hour; it
installs the tools of btrfs and xfs). ` + "`MILLION=0`" + ` leaves out the project of a million files;
` + "`QUICK=1`" + ` measures the project of the budgets alone, in some minutes: the curves stay those of the last full run.

Each figure is of the store that the product uses, called as its commands call it, on the
disk of this machine: the start of a command and the record of the guardian are not in it.
A project has so many files of 64 bytes, fifty in a folder; the changed ones lie evenly
spread, mostly one in a folder. ` + "*Processor*" + ` is the time that processors worked, which other
programs of the machine change less than the time by the clock. Peers keep the same moment
of the same project on the same disk; those of btrfs and xfs on an image of their own,
in a loop device on that disk. zfs was not tried: its module is not part of Linux. A live checkpoint holds eleven processes
still, one of them at work. Ten forks end with ten views mounted (as root), each by its own
session's start.

Work is timed inside, in copies of one project, live and overlay in turns: 100 packages of
npm that lie in the project as files, 5,000 sources in git, a module with its build cache in
the project, empty at first. The work with git begins with a line appended to 500 committed
files: overlayfs copies each to the upper and syncs the copy (fsync), which the live workspace
does not. Decision 0095 has that and each command of git by itself. To mount without the sync
(volatile) would lose the upper in a crash.
`)
	for _, r := range kept {
		fmt.Fprintf(&b, "\n## As %s\n\n%s%s%s%s", r.Who, r.Where, r.budgetTable(budgets), r.peerTable(), r.allSizes())
	}
	for _, r := range work {
		fmt.Fprintf(&b, "\n## Work in a workspace, as %s\n\n%s%s", r.Who, r.Where, r.workTable(workBudgets))
	}
	return b.String()
}

// budgetTable has what was promised of one project.
func (r *Run) budgetTable(list []Budget) string {
	var b strings.Builder
	b.WriteString("| 50,000 files, 200 changed | median | fastest | processor | budget | |\n|---|---|---|---|---|---|\n")
	for _, one := range list {
		s, ok := r.find(one.Subject, ours)
		if one.Peer != "" || !ok {
			continue
		}
		worked := "–"
		if p, ok := r.find(one.Subject, ours+Worked); ok {
			worked = fmt.Sprintf("%.3g ms", p.Median)
		}
		word := "met"
		switch {
		case s.Median <= one.Most:
		case s.Least <= one.Most:
			word = "met by the fastest round alone"
		default:
			word = "**not met**"
		}
		fmt.Fprintf(&b, "| %s | %.3g ms | %.3g ms | %s | ≤ %g ms | %s |\n", one.Title, s.Median, s.Least, worked, one.Most, word)
	}
	return b.String()
}

// peerTable has what others took for the same.
func (r *Run) peerTable() string {
	var b strings.Builder
	b.WriteString("\n| the same by other means | ours | theirs | theirs on the processor |\n|---|---|---|---|\n")
	for _, s := range r.Series {
		what, of, ok := strings.Cut(s.Subject, ", ")
		if rest, stopped := strings.CutPrefix(of, "stopped, "); stopped {
			what, of = what+", stopped", rest
		}
		if !ok || s.Contender == ours || strings.HasSuffix(s.Contender, Worked) ||
			of != fmt.Sprintf("%d files, %d changed", Files, Changed) {
			continue
		}
		mine := "a tenth of ten forks"
		if m, ok := r.find(s.Subject, ours); ok {
			mine = fmt.Sprintf("%.3g ms", m.Median)
		}
		worked, _ := r.find(s.Subject, s.Contender+Worked)
		fmt.Fprintf(&b, "| %s: %s | %s | %.4g ms | %.4g ms |\n", what, s.Contender, mine, s.Median, worked.Median)
	}
	return b.String()
}

// allSizes are the curves, of this run or of the newest that has them.
func (r *Run) allSizes() string {
	if r.Full == nil || r.Full.Where == r.Where {
		return r.curves()
	}
	return "\nThe curves are of the newest run of all sizes. " + r.Full.Where + r.Full.curves()
}

// curves tell what grows with the project and what with its changes.
func (r *Run) curves() string {
	verbs := []string{"checkpoint, stopped", "checkpoint, live", "held still for it", "restore", "diff", "ten forks", "apply", "undo"}
	var b strings.Builder
	for _, curve := range []struct {
		title string
		of    func(Size) bool
	}{
		{"files, 200 changed", func(s Size) bool { return s.Changed == Changed }},
		{"changed of 50,000 files", func(s Size) bool { return s.Files == Files }},
	} {
		fmt.Fprintf(&b, "\n| %s | %s |\n|%s\n", curve.title, strings.Join(verbs, " | "), strings.Repeat("---|", len(verbs)+1))
		for _, s := range ascending(curve.of) {
			at := s.Files
			if s.Files == Files && strings.HasPrefix(curve.title, "changed") {
				at = s.Changed
			}
			var row strings.Builder
			some := false
			for _, verb := range verbs {
				subject := Subject(verb, s.Files, s.Changed)
				wall, ok := r.find(subject, ours)
				if !ok {
					row.WriteString(" – |")
					continue
				}
				some = true
				fmt.Fprintf(&row, " %.3g", wall.Median)
				if p, ok := r.find(subject, ours+Worked); ok {
					fmt.Fprintf(&row, " (%.3g)", p.Median)
				}
				row.WriteString(" |")
			}
			if some {
				fmt.Fprintf(&b, "| %d |%s\n", at, row.String())
			}
		}
	}
	b.WriteString("\nMilliseconds by the clock, median; in brackets on the processor.\n")
	return b.String()
}

// ascending are the sizes of one curve.
func ascending(of func(Size) bool) []Size {
	var out []Size
	for _, s := range Sizes() {
		if of(s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Size) int { return a.Files + a.Changed - b.Files - b.Changed })
	return out
}

func (r *Run) workTable(list []Budget) string {
	var b strings.Builder
	b.WriteString("| work | live | overlay | ratio of medians | of the fastest | budget | |\n|---|---|---|---|---|---|---|\n")
	for _, one := range list {
		mine, ok := r.find(one.Subject, one.Contender)
		theirs, found := r.find(one.Subject, one.Peer)
		if !ok || !found {
			continue
		}
		ratio, fastest := mine.Median/theirs.Median, mine.Least/theirs.Least
		word := "met"
		switch {
		case ratio <= one.Most:
		case fastest <= one.Most:
			word = "met by the fastest round alone"
		default:
			word = "**not met**"
		}
		fmt.Fprintf(&b, "| %s | %.4g ms | %.4g ms | %.2f | %.2f | ≤ %g | %s |\n",
			one.Subject, theirs.Median, mine.Median, ratio, fastest, one.Most, word)
	}
	return b.String()
}
