package devcontainers

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/overlays"
	"cloister/internal/termsafe"
	"cloister/session/launch"

	"github.com/spf13/cobra"
)

// started is what up prints, in the words of the reference's devcontainer up.
type started struct {
	Outcome         string `json:"outcome"`
	ContainerID     string `json:"containerId"` // the cloister's name
	RemoteUser      string `json:"remoteUser"`
	WorkspaceFolder string `json:"remoteWorkspaceFolder"`
}

// failed is what up and build print where they fail.
type failed struct {
	Outcome     string `json:"outcome"`
	Message     string `json:"message"`
	Description string `json:"description"`
}

// built is what build prints.
type built struct {
	Outcome string   `json:"outcome"`
	Images  []string `json:"imageName"`
}

// holding keeps a cloister until it is stopped, after it has said that all lifecycle
// commands are over.
const holding = `printf '%s\n' "$1"; trap 'exit 0' TERM; while sleep 3600 & do wait $!; done`

// alsoCalled gives a command the names that the reference has for -C and PATH.
func alsoCalled(c *cobra.Command, project, config *string) {
	c.Flags().StringVar(project, "workspace-folder", *project, "the same as --project, as the reference calls it")
	c.Flags().StringVar(config, "config", "", "the devcontainer's `FILE`, as the reference calls PATH")
	folders := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	_ = c.RegisterFlagCompletionFunc("workspace-folder", folders)
}

func (a *Commands) upCommand() *cobra.Command {
	f := &launch.Order{Verb: "devcontainer up"}
	var anew bool
	c := &cobra.Command{
		Use: "up [flags] [PATH]", Short: "Start this project's devcontainer as a cloister in the background",
		Long: `Start this project's devcontainer as a cloister in the background, or find the one that
runs, and print one JSON document as the reference's devcontainer up does: containerId is
the cloister's name. What its lifecycle commands print goes to stderr. cloister
devcontainer exec runs commands in it, cloister stop ends it.`,
		Example: "  cloister devcontainer up\n" +
			"  cloister devcontainer exec -- npm test\n" +
			"  cloister devcontainer up --workspace-folder . --remove-existing-container",
		Args: cli.Args(0, 1), ValidArgsFunction: a.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.Devcontainer = args[0]
			}
			return a.outcome(a.up(cmd.Context(), f, anew))
		},
	}
	a.Flags(f, c, "the agent whose environment is made inside")
	hide(c, "devcontainer", "report")
	alsoCalled(c, &f.Project, &f.Devcontainer)
	c.Flags().BoolVar(&anew, "remove-existing-container", false, "stop the cloister that runs, and start another")
	return c
}

// hide leaves flags out that say nothing here.
func hide(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := c.Flags().MarkHidden(name); err != nil {
			panic(err)
		}
	}
}

// outcome prints what a verb of the reference prints: an answer, or why there is none.
func (a *Commands) outcome(answer any, err error) error {
	if err == nil {
		return a.JSON(answer)
	}
	if launch.IsUsage(err) {
		return err
	}
	if _, usage := errors.AsType[*cli.UsageError](err); usage {
		return err
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	return errors.Join(err, a.JSON(failed{"error", message, "the devcontainer was not set up"}))
}

func (a *Commands) up(ctx context.Context, f *launch.Order, anew bool) (any, error) {
	f.Devcontainer = cmp.Or(f.Devcontainer, Here)
	words := []string{}
	if f.Devcontainer != Here {
		words = append(words, f.Devcontainer)
	}
	l, err := a.look(flags{project: cmp.Or(f.Project, "."), env: f.Env}, words)
	if err != nil {
		return nil, err
	}
	f.Devcontainer, f.Project = l.File, string(l.project.Root)
	f.Name = cmp.Or(f.Name, l.CloisterName(string(l.project.Root)))
	up := started{"success", f.Name, a.Env.Get("USER"), l.WorkspaceFolder}
	running, err := a.ended(ctx, f.Name, anew)
	if err != nil || running {
		return up, err
	}
	said := make([]byte, 8)
	_, _ = rand.Read(said) // it never fails
	ready := "devcontainer ready " + hex.EncodeToString(said)
	f.Verb = "run"
	f.Args = []string{"/bin/sh", "-c", holding, "devcontainer", ready}
	if err := f.Check(); err != nil {
		return nil, err
	}
	answer, err := a.Detach(ctx, *f)
	if err != nil {
		return nil, err
	}
	return up, a.untilReady(ctx, answer.Name, ready)
}

// ended reports whether a cloister runs, which is stopped first if another is wanted.
func (a *Commands) ended(ctx context.Context, name string, anew bool) (running bool, err error) {
	c, err := a.Ensure(ctx)
	if err != nil {
		return false, &cli.UnbuiltError{Err: err}
	}
	defer c.Close()
	names, err := cli.LiveNames(ctx, c)
	if err != nil || !slices.Contains(names, name) {
		return false, err
	}
	if anew {
		_, err = cli.StopOne(ctx, c, name, 0)
	}
	return !anew, err
}

// untilReady passes what lifecycle commands print on to stderr until all are over. A
// failed one ends the cloister.
func (a *Commands) untilReady(ctx context.Context, name, ready string) error {
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(a.Output(d, name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("devcontainer up: %w", err)
	}
	defer log.Close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	sink := termsafe.New(a.Stderr)
	lines := bufio.NewReader(log)
	for line := ""; ; {
		over := !a.Lives(ctx, name) // asked before reading: what was written until the end is read then
		for {
			part, err := lines.ReadString('\n')
			line += part
			if err == nil && strings.TrimSuffix(line, "\n") == ready {
				return nil
			}
			if err == nil || len(line) > overlays.MaxOutputKept {
				_, _ = io.WriteString(sink, line) // a terminal that is gone changes nothing
				line = ""
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("devcontainer up: %w", err)
			}
		}
		if over {
			_, _ = io.WriteString(sink, line)
			return cli.Hinted(fmt.Errorf("devcontainer up: %s ended before its lifecycle commands were over", name),
				"what it asked for: cloister audit tail --session "+name)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("devcontainer up: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func (a *Commands) execCommand() *cobra.Command {
	var f flags
	var config, name string
	c := &cobra.Command{
		Use: "exec [flags] [--] CMD [ARG...]", Short: "Run a command in the cloister that devcontainer up started",
		Example: "  cloister devcontainer exec -- npm test\n" +
			"  cloister devcontainer exec --workspace-folder . bash -lc 'go test ./...'",
		Args: cli.Args(1, 1<<20), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if name == "" {
				l, err := a.look(f, []string{config})
				if err != nil {
					return err
				}
				name = l.CloisterName(string(l.project.Root))
				if !a.Lives(cmd.Context(), name) {
					return cli.Hinted(fmt.Errorf("devcontainer exec: no cloister of %s runs", l.File),
						"start it: cloister devcontainer up")
				}
			}
			return a.Exec(cmd.Context(), name, args, f.env)
		},
	}
	c.Flags().SetInterspersed(false)
	f.register(c)
	alsoCalled(c, &f.project, &config)
	c.Flags().StringVar(&name, "container-id", "", "the cloister's `NAME`, as up printed it")
	c.Flags().StringArrayVar(&f.env, "remote-env", nil, "the same as --env, as the reference calls it")
	_ = c.RegisterFlagCompletionFunc("container-id", a.CompleteSessions(false))
	return c
}

func (a *Commands) buildCommand() *cobra.Command {
	var f flags
	var config string
	c := &cobra.Command{
		Use: "build [PATH]", Short: "Fetch or build the image of this project's devcontainer",
		Long: `Fetch the image of this project's devcontainer, which a person must have agreed to, or
build it of its Dockerfile and features, and print one JSON document as the reference's
devcontainer build does. A start then fetches and builds nothing until the devcontainer's
own bytes change. The steps have no network but the guardian's.`,
		Args: cli.Args(0, 1), ValidArgsFunction: a.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{config}
			}
			return a.outcome(a.build(cmd.Context(), f, args))
		},
	}
	f.register(c)
	alsoCalled(c, &f.project, &config)
	return c
}

func (a *Commands) build(ctx context.Context, f flags, args []string) (any, error) {
	l, err := a.look(f, args)
	if err != nil {
		return nil, err
	}
	if !l.trusted {
		return nil, untrusted("devcontainer build", l)
	}
	i, err := a.image(ctx, l, "", true)
	if err != nil {
		return nil, fmt.Errorf("devcontainer build: %s: %w", l.File, err)
	}
	return built{"success", []string{i.ID}}, nil
}

// untrusted is the error for a devcontainer in bytes that no person agreed to.
func untrusted(verb string, l lookedAt) error {
	return cli.Hinted(fmt.Errorf("%s: no one has agreed to %s as it is now", verb, l.File),
		"look at what it asks for: cloister devcontainer check", "agree to it: cloister devcontainer trust")
}
