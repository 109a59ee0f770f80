package overlays

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"cloister/cmd/cloister/cli"
	"cloister/session/kept"
	"cloister/state/layers"
	"cloister/state/patch"
	"cloister/state/store"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// showHunk prints one with its number.
func (a *Commands) showHunk(d *store.Diff, list []kept.Hunk, i int) error {
	c := d.Changes[list[i].Change]
	a.Line("# %d of %d: %s %s", i+1, len(list), c.Op, patch.Quote(c.Path))
	if p := list[i].Part; p != nil {
		a.Text(p.Text)
		return nil
	}
	var text strings.Builder
	if err := patch.Write(&text, d.Stack, []layers.Change{c}); err != nil {
		return err
	}
	a.Text(text.String())
	return nil
}

// keepHunks leaves in a diff what was chosen: by numbers, or by a person at the terminal.
func (a *Commands) keepHunks(ctx context.Context, d *store.Diff, chosen string) error {
	list, err := kept.Hunks(d)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("apply: --hunk: nothing changed")
	}
	var yes map[int]bool
	if chosen == asked {
		yes, err = a.askHunks(ctx, d, list)
	} else {
		if yes, err = kept.Numbers(chosen, len(list)); err != nil {
			err = cli.Usage("cloister diff --hunks numbers them", "apply: --hunk: %v", err)
		}
	}
	if err != nil {
		return err
	}
	return kept.Choose(d, list, yes)
}

// asked is what --hunk says without numbers.
const asked = "ask"

const hunkHelp = `y - apply this hunk
n - do not apply it
a - apply it and all later ones of the file
d - apply neither it nor any later one of the file
q - apply nothing from here on
? - print help`

// askHunks asks about one after the other, as git add -p does.
func (a *Commands) askHunks(ctx context.Context, d *store.Diff, list []kept.Hunk) (map[int]bool, error) {
	if !term.IsTerminal(int(a.Stdin.Fd())) {
		return nil, cli.Usage("cloister diff --hunks numbers them; then cloister apply --hunk=1,3-5",
			"apply: --hunk: there is no terminal to ask at")
	}
	in := bufio.NewReader(a.Stdin)
	yes := map[int]bool{}
	for i := 0; i < len(list); i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := a.showHunk(d, list, i); err != nil {
			return nil, err
		}
		if err := a.Out.Flush(); err != nil {
			return nil, err
		}
		fmt.Fprintf(a.Stderr, "Apply this hunk [y,n,a,d,q,?]? ")
		answer, err := in.ReadString('\n')
		if err != nil {
			return nil, errors.New("apply: no answer; nothing was written")
		}
		file := list[i].Change
		switch strings.TrimSpace(answer) {
		case "y":
			yes[i] = true
		case "n":
		case "a", "d":
			for ; i < len(list) && list[i].Change == file; i++ {
				yes[i] = strings.TrimSpace(answer) == "a"
			}
			i--
		case "q":
			return yes, nil
		default:
			fmt.Fprintln(a.Stderr, hunkHelp)
			i--
		}
	}
	return yes, nil
}

// showHunks is cloister diff --hunks.
func (a *Commands) showHunks(d *store.Diff) error {
	list, err := kept.Hunks(d)
	if err != nil {
		return err
	}
	for i := range list {
		if err := a.showHunk(d, list, i); err != nil {
			return err
		}
	}
	return nil
}

// applyFlags are how an apply deals with what both sides changed, and with parts.
type applyFlags struct {
	autoRun, asJSON, merge bool
	hunk                   string
}

func (f *applyFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.autoRun, "auto-run", false, "also files that programs of the host run or obey")
	fl.BoolVar(&f.asJSON, "json", false, "as JSON")
	fl.BoolVar(&f.merge, "merge", false, "merge texts that were changed in the project too, where no line was changed "+
		"by both")
	fl.StringVar(&f.hunk, "hunk", "", "choose single changes: at the terminal, or by `NUMBERS` such as --hunk=1,3-5, as "+
		"diff --hunks has them")
	fl.Lookup("hunk").NoOptDefVal = asked
	c.MarkFlagsMutuallyExclusive("merge", "hunk")
}
