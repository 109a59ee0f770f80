package overlays

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/session/kept"
	"cloister/session/kept/compare"
	"cloister/state/store"

	"github.com/spf13/cobra"
)

func (a *Commands) CompareCommand() *cobra.Command {
	var command string
	var asJSON bool
	c := &cobra.Command{
		Use:   "compare NAME[@CHECKPOINT]...",
		Short: "Show side by side what overlay cloisters changed",
		Long: `Show side by side what overlay cloisters, or checkpoints of them, changed of one project:
a line for each path, a column for each cloister, with the lines that it added and removed.
What several changed to the same has the same letter. --run runs a command in a copy of
each, one after the other, and tells its exit status and its last lines: what it writes is
given up.`,
		Example: "  cloister fork k --count 3 -- 'try another way'\n  cloister compare k-1 k-2 k-3 --run 'go " +
			"test ./...'",
		Args:              cli.Args(1, 1<<10),
		ValidArgsFunction: a.completeKeptMore,
		RunE: func(cmd *cobra.Command, args []string) error {
			var sides []*compare.Side
			for _, arg := range args {
				side, err := a.compareOne(cmd.Context(), arg, command)
				if err != nil {
					return err
				}
				sides = append(sides, side)
			}
			if asJSON {
				return a.JSON(sides)
			}
			a.showCompared(sides)
			return nil
		},
	}
	c.Flags().StringVar(&command, "run", "", "run this `COMMAND` of a shell in a copy of each")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func (a *Commands) compareOne(ctx context.Context, arg, command string) (_ *compare.Side, err error) {
	h, w, at, err := a.handAt(ctx, arg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	side, err := compare.Look(ctx, h, w, arg, at)
	if err == nil && command != "" {
		side.Run, err = a.tryIn(ctx, h, w, at, command)
	}
	return side, err
}

// tryIn runs a command in a copy of a workspace, which is given up afterwards.
func (a *Commands) tryIn(ctx context.Context, h *kept.Hand, w *store.Workspace, at, command string) (*api.TestRun,
	error) {
	a.Notice("cloister: %s: %s", w.Name, command)
	return compare.Try(ctx, h, w, at, command, func(ctx context.Context, name string) ([]byte, int, error) {
		return a.again(ctx, "run", "--workspace", "overlay", "--name", name, "-C", w.Project, "--", "sh", "-c", command)
	})
}

func (a *Commands) showCompared(sides []*compare.Side) {
	head := []string{"PATH"}
	for _, s := range sides {
		head = append(head, s.Name)
	}
	rows := [][]string{head}
	for _, r := range compare.Rows(sides) {
		rows = append(rows, append([]string{r.Path}, r.Cells...))
	}
	if slices.ContainsFunc(sides, func(s *compare.Side) bool { return s.Run != nil }) {
		row := []string{"(run)"}
		for _, s := range sides {
			row = append(row, fmt.Sprintf("exit %d, %.1f s", s.Run.Status, float64(s.Run.DurationMS)/1000))
		}
		rows = append(rows, row)
	}
	a.Table(rows)
	for _, s := range sides {
		if s.Run != nil && len(s.Run.Last) > 0 {
			a.Line("")
			a.Line("%s:", s.Name)
			for _, line := range s.Run.Last {
				a.Line("  %s", line)
			}
		}
	}
}
