package overlays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/session/kept"
	"cloister/session/kept/compare"
	"cloister/state/store"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *Commands) CheckpointCommand() *cobra.Command {
	var message string
	var asJSON, withMemory bool
	c := &cobra.Command{
		Use:   "checkpoint [NAME]",
		Short: "Keep this moment of an overlay cloister's files",
		Long: `Keep this moment of an overlay cloister: its files, and its private home with what the
agent remembers. One that runs is held still while they are copied; of one that is
stopped nothing is copied. With --memory, of one that runs with --isolation gvisor, what its
processes have in memory is kept too: cloister fork --memory goes on from there.`,
		Args:              cli.Args(0, 1),
		ValidArgsFunction: a.completeKept,
		Annotations:       map[string]string{cli.TakesNames: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			h, w, err := a.handHere(cmd.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			made, err := a.save(cmd.Context(), h, w, message, withMemory)
			if err != nil {
				return err
			}
			if asJSON {
				return a.JSON(kept.Checkpoint(w.Name, made))
			}
			a.Line("%s", made.ID)
			return nil
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "what it is")
	c.Flags().BoolVar(&withMemory, "memory", false, "also the memory of what runs, with --isolation gvisor")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.AddCommand(a.checkpointExport(), a.checkpointImport())
	return c
}

func (a *Commands) CheckpointsCommand() *cobra.Command {
	var asJSON, watch bool
	c := &cobra.Command{
		Use:   "checkpoints [NAME]",
		Short: "List the checkpoints of an overlay cloister",
		Long: `List the checkpoints of an overlay cloister. --watch shows its moments on the whole screen,
with what each changed, and takes keys to go back to one, go on from one, compare, apply,
discard and undo: ? lists them. Without NAME it begins with all cloisters. While it is open,
asks wait for an answer, and stand over it.`,
		Args:              cli.Args(0, 1),
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				return a.watch(cmd.Context(), strings.Join(args, ""), asJSON)
			}
			w, err := a.open(strings.Join(args, ""))
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			lines := []api.Checkpoint{}
			rows := [][]string{{"ID", "TIME", "SIZE", "MESSAGE"}}
			for _, c := range w.Checkpoints {
				lines = append(lines, kept.Checkpoint(w.Name, c))
				message := c.Message
				if c.Auto {
					message = "(automatic) " + message
				}
				rows = append(rows, []string{c.ID, c.Time.Local().Format(time.DateTime), fmt.Sprintf("%d", c.Bytes), message})
			}
			if asJSON {
				return a.JSON(lines)
			}
			a.Table(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "on the whole screen, with keys to go back to one and on from it")
	return c
}

// watch shows the page of time, where there is a terminal for it.
func (a *Commands) watch(ctx context.Context, name string, asJSON bool) error {
	switch {
	case asJSON:
		return cli.Usage("cloister checkpoints --json lists them", "checkpoints: --watch is for an eye, and --json for none")
	case !term.IsTerminal(int(a.Stdin.Fd())) || !term.IsTerminal(int(a.Stdout.Fd())):
		return cli.Usage("cloister checkpoints lists them", "checkpoints: --watch needs a terminal")
	}
	s, err := a.KeptStore()
	if err == nil && name != "" && !s.Has(name) {
		var w *store.Workspace
		if w, err = a.open(name); err == nil { // it says what there is instead
			err = w.Close()
		}
	}
	if err != nil {
		return err
	}
	return a.Watch(ctx, name)
}

func (a *Commands) RestoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore NAME@CHECKPOINT",
		Short: "Make an overlay cloister's files what they were",
		Long: `Make the files of an overlay cloister that is not running what they were at a checkpoint.
What they are now is kept as a checkpoint first.`,
		Args:              cli.Args(1, 1),
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, w, id, err := a.handAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			if id = cmp.Or(id, w.Head); id != "" {
				if _, err := w.Checkpoint(id); err != nil {
					return cli.Hinted(err, "cloister checkpoints "+w.Name)
				}
			}
			before, err := h.Restore(cmd.Context(), w, id)
			if none, ok := errors.AsType[*kept.NoCheckpoint](err); ok {
				return cli.Usage("cloister checkpoint "+w.Name+" makes one", "restore: %v", none)
			}
			if err != nil {
				return stopFirst(err)
			}
			a.Notice("cloister: what was there before is checkpoint %s", before.ID)
			a.Line("%s@%s", w.Name, w.Head)
			return nil
		},
	}
}

func (a *Commands) ForkCommand() *cobra.Command {
	var count int
	var asJSON, withMemory bool
	var agentName string
	var accept, prompts []string
	c := &cobra.Command{
		Use:   "fork NAME[@CHECKPOINT] [-- PROMPT...]",
		Short: "Make more cloisters of one's files",
		Long: `Make new overlay workspaces with the files and the private home that one has, or had at
a checkpoint. Each is a cloister of its own: cloister start --name NAME --workspace overlay
goes on in it. With a PROMPT an agent is started in each, in the background, which goes on
with the conversation: cloister attach NAME. --prompt, again for more, makes a fork for each
of several prompts.

With --memory each fork runs at once, with the processes that run in the cloister, or ran at
a checkpoint with memory: open connections are reset, and it is a cloister of its own, with
the parent's words of policy and none of its answers. It needs --isolation gvisor.`,
		Example: "  cloister fork k --count 3 -- 'find another way'\n" +
			"  cloister fork k --prompt 'with a map' --prompt 'with a sorted list'",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return cli.Args(1, 1)(cmd, args)
		},
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			each, err := promptOfEach(prompts, args[1:], count, cmd.Flags().Changed("count"))
			if err != nil {
				return err
			}
			h, w, id, err := a.handAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			prompted := each[0] != ""
			if withMemory {
				if prompted || agentName != "" {
					return cli.Usage("leave it out: what runs goes on", "fork: --memory takes no prompt and no agent")
				}
				return a.forkMemory(cmd.Context(), h, w, id, len(each), accept, asJSON)
			}
			if agentName = cmp.Or(agentName, w.Agent); prompted && agentName == "" {
				return cli.Usage("--agent NAME says which", "fork: no agent has worked in %s", w.Name)
			}
			forks, err := h.Fork(cmd.Context(), w, id, len(each))
			if err != nil {
				return err
			}
			if prompted {
				var errs []error
				for i, f := range forks {
					args := kept.Resumption(w, f, agentName, each[i])
					errs = append(errs, a.resumeIn(cmd.Context(), f.Name, w.Project, agentName, args))
				}
				if err := errors.Join(errs...); err != nil {
					return err
				}
			}
			if asJSON {
				return a.JSON(forks)
			}
			for _, f := range forks {
				a.Line("%s", f.Name)
			}
			return nil
		},
	}
	c.Flags().IntVar(&count, "count", 1, "how many")
	c.Flags().StringArrayVar(&prompts, "prompt", nil, "a fork for each `TEXT`, with which its agent goes on")
	c.Flags().BoolVar(&withMemory, "memory", false, "with what runs, on --isolation gvisor")
	c.Flags().StringArrayVar(&accept, "accept", nil, "go on without a guarantee: `residue:fork-randomness`")
	c.Flags().StringVar(&agentName, "agent", "", "the agent that gets the prompt, instead of the one that worked there")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// promptOfEach is what the agent of each fork goes on with, "" for no agent.
func promptOfEach(prompts, words []string, count int, counted bool) ([]string, error) {
	switch {
	case count < 1 || count > maxForks || len(prompts) > maxForks:
		return nil, cli.Usage("", "fork: --count: want a number from 1 to %d", maxForks)
	case len(prompts) == 0:
		return slices.Repeat([]string{strings.Join(words, " ")}, count), nil
	case len(words) > 0:
		return nil, cli.Usage("", "fork: say what to go on with by --prompt or after --, not by both")
	case counted && count != len(prompts):
		return nil, cli.Usage("leave --count out: each --prompt makes one",
			"fork: --count %d, and %d prompts", count, len(prompts))
	case slices.Contains(prompts, ""):
		return nil, cli.Usage("", "fork: --prompt: want a text")
	}
	return prompts, nil
}

// maxForks bounds how many are made at once.
const maxForks = 100

// resumeIn starts an agent in a fork, which goes on with the conversation.
func (a *Commands) resumeIn(ctx context.Context, name, project, agentName string, args []string) error {
	words := []string{"start", "-d", "--name", name, "--workspace", "overlay", "-C", project, "--agent", agentName, "--"}
	out, status, err := a.again(ctx, append(words, args...)...)
	if err == nil && status != 0 {
		err = cli.Hinted(fmt.Errorf("fork: %s is made, but %s was not started: %s", name, agentName,
			strings.Join(compare.Last(out, 3), "; ")),
			"cloister start --name "+name+" --workspace overlay")
	}
	return err
}
