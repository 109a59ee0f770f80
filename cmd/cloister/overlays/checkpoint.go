package overlays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/session/kept"
	"cloister/session/kept/compare"

	"github.com/spf13/cobra"
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
			h, w, err := a.handHere(strings.Join(args, ""))
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
	var asJSON bool
	c := &cobra.Command{
		Use:               "checkpoints [NAME]",
		Short:             "List the checkpoints of an overlay cloister",
		Args:              cli.Args(0, 1),
		ValidArgsFunction: a.completeKept,
		RunE: func(_ *cobra.Command, args []string) error {
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
	return c
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
			name, id := nameAt(args[0])
			h, w, err := a.handHere(name)
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
	var accept []string
	c := &cobra.Command{
		Use:   "fork NAME[@CHECKPOINT] [-- PROMPT...]",
		Short: "Make more cloisters of one's files",
		Long: `Make new overlay workspaces with the files and the private home that one has, or had at
a checkpoint. Each is a cloister of its own: cloister start --name NAME --workspace overlay
goes on in it. With a PROMPT an agent is started in each, in the background, which goes on
with the conversation: cloister attach NAME.

With --memory each fork runs at once, with the processes that run in the cloister, or ran at
a checkpoint with memory: open connections are reset, and it is a cloister of its own, with
the parent's words of policy and none of its answers. It needs --isolation gvisor.`,
		Example: "  cloister fork k --count 3 -- 'find another way'",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return cli.Args(1, 1)(cmd, args)
		},
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > 100 {
				return cli.Usage("", "fork: --count: want a number from 1 to 100")
			}
			name, id := nameAt(args[0])
			h, w, err := a.handHere(name)
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			prompt := strings.Join(args[1:], " ")
			if withMemory {
				if prompt != "" || agentName != "" {
					return cli.Usage("leave it out: what runs goes on", "fork: --memory takes no prompt and no agent")
				}
				return a.forkMemory(cmd.Context(), h, w, id, count, accept, asJSON)
			}
			if agentName = cmp.Or(agentName, w.Agent); prompt != "" && agentName == "" {
				return cli.Usage("--agent NAME says which", "fork: no agent has worked in %s", w.Name)
			}
			forks, err := h.Fork(cmd.Context(), w, id, count)
			if err != nil {
				return err
			}
			var names []string
			for _, f := range forks {
				names = append(names, f.Name)
			}
			if prompt != "" {
				args := kept.Resumption(w, forks[0], agentName, prompt)
				if err := a.resumeIn(cmd.Context(), names, w.Project, agentName, args); err != nil {
					return err
				}
			}
			if asJSON {
				return a.JSON(forks)
			}
			for _, n := range names {
				a.Line("%s", n)
			}
			return nil
		},
	}
	c.Flags().IntVar(&count, "count", 1, "how many")
	c.Flags().BoolVar(&withMemory, "memory", false, "with what runs, on --isolation gvisor")
	c.Flags().StringArrayVar(&accept, "accept", nil, "go on without a guarantee: `residue:fork-randomness`")
	c.Flags().StringVar(&agentName, "agent", "", "the agent that gets the prompt, instead of the one that worked there")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// resumeIn starts an agent in each fork, which goes on with the conversation.
func (a *Commands) resumeIn(ctx context.Context, names []string, project, agentName string, args []string) error {
	var errs []error
	for _, name := range names {
		words := []string{"start", "-d", "--name", name, "--workspace", "overlay", "-C", project, "--agent", agentName, "--"}
		out, status, err := a.again(ctx, append(words, args...)...)
		if err == nil && status != 0 {
			err = cli.Hinted(fmt.Errorf("fork: %s is made, but %s was not started: %s", name, agentName,
				strings.Join(compare.Last(out, 3), "; ")),
				"cloister start --name "+name+" --workspace overlay")
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
