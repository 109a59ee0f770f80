package escape

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"cloister/escape/hoststate"
)

// Options of a run of the corpus.
type Options struct {
	Dir      string // where worlds are made
	Cloister string // the binary
	Off      string // the same with cloister_layeroff
	Layers   bool   // leave out each layer in turn
	Kind     Enclosure
	Self     string // this program
	Cases    []Case
	AtOnce   int // how many cases, or layers, are tried side by side; 0: one
	// Ended, where it is set, is called as each cloister and each control ends, with the
	// cases that shared it and what they came to so far.
	Ended func(what string, rows []*Row, took time.Duration)
	// Judged, where it is set, is called with each case as it is known whether it passes. Both may be called at once.
	Judged func(r Row)
}

func (o Options) ended(what string, rows []*Row, since time.Time) {
	if o.Ended != nil {
		o.Ended(what, rows, time.Since(since))
	}
}

// Row is what one case came to.
type Row struct {
	Case     Case
	Answers  []Answer
	Findings []Finding
	Records  int      // that were due and are there
	Problems []string // why it does not pass; empty: it passes
	Controls int      // tries whose control succeeded
	Excused  []string // tries without one here, and why
	// Off is what was seen with one layer left out, for each that the case names or
	// needs, or that another case shares a cloister without.
	Off map[Layer]Off

	unsure bool // an answer, a machine or a control is missing
	harm   bool // something of the host was changed or reached
}

// Off is what a case came to with one layer left out. Exactly one of the three
// is so.
type Off struct {
	Opens   string // the try that came off, and its answer
	Held    bool   // every try was refused all the same: by a second layer
	Untried string // why the attempt could not be made
}

// Passed tells whether every part of the verdict is as it must be.
func (r Row) Passed() bool { return len(r.Problems) == 0 }

// Undecided reports that a case does not pass although nothing is known to have come off: a control failed, a
// machine did not boot, or an answer is missing.
func (r Row) Undecided() bool {
	open := slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.State == Open })
	lost := slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Held && strings.HasPrefix(f.Name, "control") })
	seen := slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Held && !strings.HasPrefix(f.Name, "control") })
	return !r.Passed() && !open && !r.harm && (lost || r.unsure && !seen)
}

func (r *Row) fail(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Run runs the corpus and gives a row for each case. An error means that the
// corpus could not be run, not that a case failed; or, with rows, that the host
// is not as it was before: its mounts, network or settings.
func Run(ctx context.Context, o Options) ([]Row, error) {
	if len(o.Cases) == 0 {
		return nil, errors.New("no case to try")
	}
	var rows []Row
	err := hoststate.Unchanged(func() (err error) { rows, err = o.run(ctx); return err })
	return rows, err
}

func (o Options) run(ctx context.Context) ([]Row, error) {
	rows := make([]Row, len(o.Cases))
	for i, c := range o.Cases {
		rows[i] = Row{Case: c, Off: map[Layer]Off{}}
	}
	if err := o.tried(ctx, rows); err != nil {
		return nil, err
	}
	if !o.Layers {
		return rows, nil
	}
	var mu sync.Mutex // of what is noted of a case without one layer and without another
	return rows, sideBySide(ctx, o.AtOnce, o.Kind.Column().Layers(), func(ctx context.Context, layers <-chan Layer) error {
		for layer := range layers {
			if err := o.layerOff(ctx, rows, layer, &mu); err != nil {
				return fmt.Errorf("without %s: %w", layer, err)
			}
		}
		return nil
	})
}

// sideBySide hands things out to so many lanes, of which each takes one after the other. The first error ends all.
func sideBySide[T any](ctx context.Context, lanes int, all []T,
	lane func(context.Context, <-chan T) error,
) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	waiting := make(chan T)
	var wait sync.WaitGroup
	for range max(1, lanes) {
		wait.Go(func() {
			if err := lane(ctx, waiting); err != nil {
				stop(err)
			}
		})
	}
	for _, one := range all {
		select {
		case waiting <- one:
		case <-ctx.Done():
		}
	}
	close(waiting)
	wait.Wait()
	return context.Cause(ctx)
}

// own tells whether a case needs a cloister of its own.
func own(c Case) bool { return c.Flags != nil || c.Prepare != nil }

// tried has every case tried in the real thing, and then outside. What does not come off there proves
// nothing inside.
func (o Options) tried(ctx context.Context, rows []Row) error {
	return sideBySide(ctx, o.AtOnce, groups(rows), o.lane)
}

// lane tries groups of cases in a world of its own.
func (o Options) lane(ctx context.Context, waiting <-chan []*Row) (err error) {
	w, err := NewWorld(ctx, o.Dir, o.Cloister, o.Self, o.Kind, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	w.Off = o.Off
	if err := w.Configure(); err != nil {
		return err
	}
	outside, err := NewWorld(ctx, o.Dir, o.Cloister, o.Self, o.Kind, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, outside.Close()) }()
	for group := range waiting {
		began := time.Now()
		if err := o.group(w, group); err != nil { // the others are tried all the same
			for _, r := range group {
				r.unsure = true
				r.fail("it could not be tried: %v", err)
			}
		}
		o.ended("inside", group, began)
		for _, r := range group {
			if err := o.outside(outside, r); err != nil {
				return fmt.Errorf("control of %s: %w", r.Case.ID, err)
			}
			if ctx.Err() != nil {
				return ctx.Err() // what came of commands that were cut off says nothing
			}
			if o.Judged != nil {
				o.Judged(*r)
			}
		}
	}
	return nil
}

// groups are the cases that share a cloister, and then each of the others.
func groups(rows []Row) [][]*Row {
	var shared []*Row
	var singles [][]*Row
	for i := range rows {
		if rows[i].Case.Shares() {
			shared = append(shared, &rows[i])
		} else {
			singles = append(singles, []*Row{&rows[i]})
		}
	}
	if len(shared) == 0 {
		return singles
	}
	return append([][]*Row{shared}, singles...)
}

// group runs cases in one cloister and judges them.
func (o Options) group(w *World, rows []*Row) error {
	w.unbooted = 0
	if err := w.prepare(rows[0].Case, len(rows) == 1); err != nil {
		return err
	}
	if err := w.Remember(); err != nil {
		return err
	}
	_ = w.Sunk()
	before, err := w.Events()
	if err != nil {
		return err
	}
	var untried error // what it did before that is looked at all the same
	if rows[0].Case.Tries != nil {
		untried = w.attempt(rows)
	}
	damage, err := w.Damage()
	if err != nil {
		return errors.Join(untried, err)
	}
	var hurt []string
	for path, text := range damage {
		hurt = append(hurt, path+": "+text)
	}
	sort.Strings(hurt)
	blame(rows, "the canaries changed", hurt)
	blame(rows, "the sink was reached", w.Sunk())
	if untried != nil {
		return untried
	}
	events, err := w.Events()
	if err != nil {
		return err
	}
	for _, r := range rows {
		for _, d := range r.Case.Due {
			n := 0
			for _, e := range events[len(before):] {
				if string(e.Kind) == d.Kind && e.Host == d.Host && e.Verdict == d.Verdict {
					n++
				}
			}
			r.Records += n
			if n == 0 || n > 1 && !d.Some {
				r.fail("the record has %d of %s %s %s", n, d.Kind, d.Host, d.Verdict)
			}
		}
		if r.Case.Host == nil {
			continue
		}
		r.Findings = r.Case.Host(w)
		for _, f := range r.Findings {
			if !f.Held {
				r.fail("%s: %s", f.Name, f.Detail)
			}
		}
		if len(r.Findings) == 0 {
			r.fail("nothing was looked at")
		}
		if w.unbooted > 0 {
			r.unsure = true
			r.fail("%d machines did not boot", w.unbooted)
		}
	}
	return nil
}

func (w *World) prepare(c Case, alone bool) error {
	w.Last = Result{}
	if !alone || c.Prepare == nil {
		return nil
	}
	return c.Prepare(w)
}

// attempt makes the tries of cases in one cloister and notes the answers.
func (w *World) attempt(rows []*Row) error {
	cases := casesOf(rows)
	var flags []string
	if f := cases[0].Flags; f != nil {
		flags = f(w)
	}
	res, err := w.Try(flags, cases)
	if err != nil {
		return err
	}
	w.Last = res
	answers, other := ReadAnswers(res.Stdout)
	for _, r := range rows {
		for _, a := range answers {
			if a.Case != r.Case.ID {
				continue
			}
			r.Answers = append(r.Answers, a)
			if a.State != Held {
				r.unsure = true
				r.fail("%s: %s: %s", a.Try, a.State, a.Text)
			}
		}
		if want := len(r.Case.Tries(w.Inside)); len(r.Answers) != want {
			r.unsure = true
			r.fail("%d answers of %d tries; status %d; %.400s%.400s", len(r.Answers), want, res.Status, other, res.Stderr)
		}
	}
	return nil
}

func casesOf(rows []*Row) []Case {
	cases := make([]Case, 0, len(rows))
	for _, r := range rows {
		cases = append(cases, r.Case)
	}
	return cases
}

// blame fails the cases that a trace names, or all where it names none.
func blame(rows []*Row, what string, traces []string) {
	for _, trace := range traces {
		named := false
		for _, r := range rows {
			if strings.Contains(trace, r.Case.ID) {
				named, r.harm = true, true
				r.fail("%s: %s", what, trace)
			}
		}
		if named {
			continue
		}
		for _, r := range rows {
			r.harm = true
			r.fail("%s by one of these cases: %s", what, trace)
		}
	}
}

// outside makes a case's tries there.
func (o Options) outside(w *World, r *Row) error {
	if r.Case.Tries == nil {
		return nil
	}
	// What an earlier control took away is there again.
	if err := errors.Join(w.files(), w.hooks()); err != nil {
		return err
	}
	began := time.Now()
	if err := w.control(r); err != nil {
		return err
	}
	o.ended("control", []*Row{r}, began)
	return nil
}

func (w *World) control(r *Row) error {
	opened, said := map[string]bool{}, map[string]string{}
	tries := r.Case.Tries(w.Inside)
	for _, namespaced := range []bool{false, true} {
		if len(opened) == len(tries) {
			break
		}
		if r.Case.Contained && !namespaced {
			continue
		}
		res, err := w.Control(r.Case, namespaced)
		if err != nil {
			return err
		}
		answers, other := ReadAnswers(res.Stdout)
		for _, a := range answers {
			if a.State == Open {
				opened[a.Try] = true
			}
			said[a.Try] += " " + a.Text
		}
		if len(answers) < len(tries) {
			said["(the process)"] = fmt.Sprintf("%d of %d answers, status %d %s", len(answers), len(tries), res.Status, other)
		}
	}
	for _, t := range tries {
		switch {
		case opened[t.Name]:
			r.Controls++
		case t.Control == ByRoot && os.Geteuid() != 0:
			r.Excused = append(r.Excused, t.Name+": the kernel refuses every ordinary user")
		case t.Control == ByNobody:
			r.Excused = append(r.Excused, t.Name+": "+t.Why)
		default:
			r.unsure = true
			r.fail("no control: %s outside:%s %s", t.Name, said[t.Name], said["(the process)"])
		}
	}
	return nil
}
