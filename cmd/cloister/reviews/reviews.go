// Package reviews is the command about what sessions changed that programs of the host may run:
// it shows each change as a diff, and takes what a person decides about it.
//
// The promise: a person decides about exactly the bytes that were shown, and a decision about a
// folder is one about each path below it.
//
// It decides and keeps nothing itself: workspace/review does, by way of the guardian, which
// records it.
//
// Most readers want [Commands].
package reviews

import (
	"bufio"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/internal/linediff"
	"cloister/internal/termsafe"
	"cloister/internal/xdg"
	"cloister/workspace/review"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Commands are the commands of one invocation.
type Commands struct{ *cli.App }

// flags are the flags of review, as typed.
type flags struct{ keep, revert, trust, json, prompt bool }

// Command is review.
func (a *Commands) Command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "review [NAME] [--keep|--revert|--trust PATH...]",
		Short: "Decide about changed files that programs of the host may run",
		Long: `Show what sessions changed that programs of the host run or obey by themselves,
each as a diff, and decide about it. NAME is a cloister or a project; without one it
is the project that you are in.

  --keep    it may stay; when it changes again it waits again
  --revert  what lay there when the session began is put back
  --trust   it may stay, and the same bytes at that path never wait again

A folder stands for what waits below it, and . for all. On a terminal, and without
one of these, each is asked about.`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			names, how := a.CompleteProjects(cmd, args, word)
			if len(args) == 0 {
				names = append(names, a.SessionNames(cmd.Context(), true)...)
			}
			return names, how // and paths, which stand after --keep and its like
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.review(cmd.Context(), f, args) },
	}
	c.Flags().BoolVar(&f.keep, "keep", false, "keep these")
	c.Flags().BoolVar(&f.revert, "revert", false, "put back what lay there before")
	c.Flags().BoolVar(&f.trust, "trust", false, "keep these, and never show the same bytes again")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON document")
	c.Flags().BoolVar(&f.prompt, "prompt", false, "print one short line where something waits, for a shell's prompt")
	c.MarkFlagsMutuallyExclusive("keep", "revert", "trust", "json", "prompt")
	return c
}

// decision is what the flags say, and how many words stand before them.
func (a *Commands) decision(f flags, args []string) (d review.Decision, before int) {
	switch {
	case f.keep:
		d = review.Keep
	case f.revert:
		d = review.Revert
	case f.trust:
		d = review.Trust
	default:
		return "", len(args)
	}
	at := slices.Index(a.Args, "--"+string(d))
	if at > 0 && len(args) > 0 && a.Args[at-1] == args[0] && !slices.Contains(a.Args[at:], args[0]) {
		before = 1
	}
	return d, before
}

func (a *Commands) review(ctx context.Context, f flags, args []string) error {
	d, before := a.decision(f, args)
	name, paths := "", args[before:]
	switch {
	case before > 1:
		return cli.Usage("", "review: one NAME, not %d", before)
	case before == 1:
		name = args[0]
	}
	if d != "" && len(paths) == 0 {
		return cli.Usage("name them, or . for all", "review: --%s needs the paths", d)
	}
	dirs, err := a.Dirs()
	if err != nil {
		return err
	}
	store := review.In(dirs.State)
	found, err := a.toReview(ctx, dirs, name)
	if err != nil {
		return err
	}
	switch {
	case f.prompt:
		n := 0
		for _, p := range found {
			n += p.Waiting()
		}
		if n > 0 {
			a.Line("%d changed to review", n)
		}
		return nil
	case f.json:
		out := []api.ReviewEntry{}
		for _, p := range found {
			for _, e := range p.Entries {
				if p.Means(e, name) {
					out = append(out, api.ReviewEntry{Path: e.Path, By: e.By, Why: e.Why, State: string(e.State)})
				}
			}
		}
		return a.JSON(out)
	case d != "":
		return a.decide(ctx, found, name, d, paths)
	}
	return a.showReviews(ctx, store, found, name)
}

// toReview are the projects that a name stands for.
func (a *Commands) toReview(ctx context.Context, d xdg.Dirs, name string) ([]*review.Project, error) {
	all, err := review.In(d.State).All()
	if err != nil {
		return nil, err
	}
	here := ""
	if name == "" {
		p, err := a.FindProject(".")
		if err != nil {
			return nil, err
		}
		here = string(p.Root)
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	out := review.Select(all, name, here, full)
	if len(out) == 0 && name != "" {
		return nil, a.nameOfAny(ctx, d, name)
	}
	return out, nil
}

// nameOfAny refuses a name that is no cloister's and no project's, as far as the guardian that runs knows.
func (a *Commands) nameOfAny(ctx context.Context, d xdg.Dirs, name string) error {
	_, _, err := a.NamedProject(d, []string{name})
	cloisters := a.SessionNames(ctx, true)
	of := func(c string) bool { return strings.HasPrefix(c, name+"\t") }
	if err == nil || cloisters == nil || slices.ContainsFunc(cloisters, of) {
		return nil
	}
	return cli.Hinted(err, "cloister list -a tells the cloisters")
}

func (a *Commands) decide(ctx context.Context, found []*review.Project, name string, d review.Decision,
	paths []string) error {
	var errs []error
	for _, path := range paths {
		any := false
		for _, p := range found {
			of := p.Below(name, path)
			any = any || len(of) > 0
			for len(of) > 0 { // each byte may be spelled as four
				n := review.Fitting(of, api.MostReviewed, api.MaxBody/8)
				errs = append(errs, a.decideAll(ctx, p.Root, of[:n], d))
				of = of[n:]
			}
		}
		if !any {
			errs = append(errs, &review.NotWaiting{Path: path})
		}
	}
	return errors.Join(errs...)
}

// decideAll decides about several paths of a project, with one message for each.
func (a *Commands) decideAll(ctx context.Context, root string, paths []string, d review.Decision) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.ReviewAll(ctx, root, paths, string(d))
	errs := []error{err}
	for _, e := range all {
		if e.Error != nil {
			errs = append(errs, e.Error)
		} else {
			a.Notice("%s %s", e.State, e.Path)
		}
	}
	return errors.Join(errs...)
}

// showReviews shows each change as a diff and, on a terminal, asks about it.
func (a *Commands) showReviews(ctx context.Context, store review.Store, found []*review.Project, name string) error {
	asks := term.IsTerminal(int(a.Stdin.Fd())) && term.IsTerminal(int(a.Stdout.Fd()))
	in := bufio.NewReader(a.Stdin)
	shown := 0
	for _, p := range found {
		now, err := store.Look(p.Root)
		if err != nil {
			return err
		}
		for _, e := range now.Entries {
			if e.State != review.Waiting || !now.Means(e, name) {
				continue
			}
			shown++
			before, after, note := store.Texts(now.Root, e)
			a.Line("%s: %s (changed by %s)", e.Full(now.Root), e.Why, e.By)
			if note != "" {
				a.Line("  (%s)", note)
			}
			for _, l := range linediff.Changes(termsafe.Lines(string(before)), termsafe.Lines(string(after))) {
				a.Line("  %s", l)
			}
			if !asks {
				continue
			}
			d, stop := a.askReview(in, e.Revertible() == nil)
			if stop {
				return nil
			}
			if d != "" {
				if err := a.decideAll(ctx, now.Root, []string{e.Path}, d); err != nil {
					return err
				}
			}
		}
	}
	if shown == 0 {
		a.Notice("nothing waits for a review")
	} else if !asks {
		a.Notice("hint: cloister review --keep|--revert|--trust PATH...")
	}
	return nil
}

// askReview asks about one change; revert is offered only where it can be done.
func (a *Commands) askReview(in *bufio.Reader, revert bool) (d review.Decision, stop bool) {
	for {
		question := "keep, revert, trust, skip or quit? [k/r/t/s/q] "
		if !revert {
			question = "keep, trust, skip or quit (it cannot be reverted: put it right yourself)? [k/t/s/q] "
		}
		a.Out.WriteString(question)
		_ = a.Out.Flush() // the question itself tells of a broken terminal
		word, err := in.ReadString('\n')
		if err != nil {
			return "", true
		}
		switch strings.TrimSpace(word) {
		case "k", "keep":
			return review.Keep, false
		case "r", "revert":
			if revert {
				return review.Revert, false
			}
		case "t", "trust":
			return review.Trust, false
		case "s", "skip", "":
			return "", false
		case "q", "quit":
			return "", true
		}
	}
}
