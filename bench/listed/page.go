package listed

import (
	"fmt"
	"strings"

	"cloister/bench/overlays"
)

// wanted is what a statement may cost, of what the same takes without one.
const wanted = 1.05

// Page is what a reader is told of the newest runs.
func Page(runs []overlays.Run) string {
	var b strings.Builder
	b.WriteString(`# Files and programs: what statements cost

<!-- Written by go run ./bench from docs/bench/*.json. Do not edit. -->

` + "`go run ./bench -only listed -install=false`" + ` measures again and writes this page, in some minutes.

Where no kernel judges files, the view and Landlock keep what a policy says, which costs a call next to nothing. What
costs is the record: a seccomp filter with a listener has the shim look at a call before it goes on. So a session without a
statement about files or programs has neither; one that forbids to write is asked about opens that change; lists, a folder
that is not read and mode record are asked about every open and execution.

Each kind of work is done by one program inside, in a session of its own each time, all kinds of session in turns in one
run; a figure is the median of the rounds, in brackets the fastest. *Processor* is what the whole command used, with the start of the
session and the process that records. The peer is the same session without a statement. At most 5 % more is
wanted, and said is what the medians give.
`)
	for _, r := range runs {
		fmt.Fprintf(&b, "\n## As %s\n\n%s", r.Who, r.Where)
		for _, s := range Subjects {
			b.WriteString(table(r, s))
		}
	}
	return b.String()
}

// table is one kind of work.
func table(r overlays.Run, s Subject) string {
	find := func(contender string) overlays.Series {
		for _, one := range r.Series {
			if one.Subject == s.Title && one.Contender == contender {
				return one
			}
		}
		return overlays.Series{}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | takes | of the peer | wanted | processor | of the peer's |\n|---|---|---|---|---|---|\n", s.Title)
	peer, worked := find(Contenders[0]), find(Contenders[0]+Worked)
	for i, who := range Contenders {
		one, cpu := find(who), find(who+Worked)
		fmt.Fprintf(&b, "| %s | %.3g %s (%.3g) | ", who, one.Median, s.Unit, one.Least)
		if i == 0 {
			fmt.Fprintf(&b, "1 | | %.3g ms | 1 |\n", cpu.Median)
			continue
		}
		word := "met"
		if one.Median > wanted*peer.Median {
			word = "**not met**"
		}
		fmt.Fprintf(&b, "%.2f | %s | %.3g ms | %.2f |\n", one.Median/peer.Median, word, cpu.Median, cpu.Median/worked.Median)
	}
	return b.String() + "\n"
}
