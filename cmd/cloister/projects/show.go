// Package projects is the commands about projects: which are known, what applies in each, and what a person agrees to.
//
// The promise: what a repository asks for is agreed to in exactly the bytes that were shown, and what is removed
// was listed first.
//
// It keeps nothing itself: workspace/projects does, and workspace/clean finds what stands in a start's way.
//
// Most readers want [Commands].
package projects

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/devcontainer/trust"
	"cloister/internal/linediff"
	"cloister/internal/xdg"
	"cloister/workspace"
	"cloister/workspace/homes"
	"cloister/workspace/projects"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Commands are the commands of one invocation.
type Commands struct{ *cli.App }

// Command is project with its verbs.
func (a *Commands) Command() *cobra.Command {
	return cli.Group("project", "List, show, edit, trust and forget projects",
		a.projectList(), a.projectShow(), a.projectEdit(), a.projectTrust(), a.projectClean(), a.projectRemove())
}

// named is the project that was typed, or else the current folder's, with Cloister's folders.
func (a *Commands) named(args []string) (d xdg.Dirs, k projects.Known, p workspace.Project, err error) {
	if d, err = a.Dirs(); err == nil {
		k, p, err = a.NamedProject(d, args)
	}
	return d, k, p, err
}

// listedProject is one line of the list.
type listedProject struct {
	Name      string    `json:"name"`
	Root      string    `json:"root"`
	Exists    bool      `json:"exists"`
	Cloisters int       `json:"cloisters"`
	Proposal  string    `json:"proposal"`
	FirstUsed time.Time `json:"first_used"`
	// Home is the size of the private home, where it was asked for.
	Home *int64 `json:"home_bytes,omitempty"`
}

func (a *Commands) listedProjects(ctx context.Context, d xdg.Dirs) ([]listedProject, error) {
	all, err := a.Projects(d)
	if err != nil {
		return nil, err
	}
	live, err := a.Living(ctx)
	if err != nil {
		return nil, err
	}
	cfg, _, err := a.Load()
	if err != nil {
		return nil, err
	}
	out := []listedProject{}
	for _, k := range all {
		l := listedProject{Name: k.Name, Root: k.Root, FirstUsed: k.FirstUsed}
		if fi, err := os.Stat(k.Root); err == nil && fi.IsDir() {
			l.Exists = true
		}
		l.Proposal, _ = k.Proposal(d, k.Root, cfg)
		for _, s := range live {
			if s.Project == k.Root {
				l.Cloisters++
			}
		}
		out = append(out, l)
	}
	return out, nil
}

func (a *Commands) projectList() *cobra.Command {
	var asJSON, sizes bool
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the projects that were used", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			all, err := a.listedProjects(cmd.Context(), d)
			if err != nil {
				return err
			}
			if sizes {
				for i := range all {
					size := homes.Size(homes.Of(d.Data, all[i].Root))
					all[i].Home = &size
				}
			}
			if asJSON {
				return a.JSON(all)
			}
			rows := [][]string{{"NAME", "CLOISTERS", "PROPOSAL", "ROOT"}}
			if sizes {
				rows[0] = slices.Insert(rows[0], 3, "HOME")
			}
			for _, p := range all {
				root := p.Root
				if !p.Exists {
					root += " (gone)"
				}
				row := []string{p.Name, fmt.Sprint(p.Cloisters), p.Proposal, root}
				if p.Home != nil {
					row = slices.Insert(row, 3, cli.SizeText(*p.Home))
				}
				rows = append(rows, row)
			}
			a.Table(rows)
			if len(all) == 0 {
				a.Notice("no project was used yet; cloister start in a folder begins one")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&sizes, "homes", false, "measure how large their private homes are")
	return c
}

// shownProject is what show tells.
type shownProject struct {
	Name     string   `json:"name"`
	Root     string   `json:"root"`
	Settings string   `json:"settings"`
	Proposal string   `json:"proposal"`
	Changes  []string `json:"changes"` // what waits for a person's trust
}

func (a *Commands) projectShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [NAME|DIR]", Short: "Show one project", Args: cli.Args(0, 1), ValidArgsFunction: a.CompleteProjects,
		RunE: func(_ *cobra.Command, args []string) error {
			d, k, p, err := a.named(args)
			if err != nil {
				return err
			}
			root := cmp.Or(string(p.Root), k.Root)
			cfg, _, err := a.Load()
			if err != nil {
				return err
			}
			state, text := k.Proposal(d, root, cfg)
			shown := shownProject{k.Name, k.Root, k.SettingsFile(d), state, []string{}}
			switch state {
			case "bad":
				_, _, why := config.LoadProject(filepath.Join(root, config.ProjectFile))
				a.Complain(why)
			case "waits":
				shown.Changes = linediff.Changes(k.Trusted, string(text))
			}
			if asJSON {
				return a.JSON(shown)
			}
			a.Table([][]string{{"name", k.Name}, {"root", k.Root}, {"settings", shown.Settings}, {"proposal", state}})
			if len(shown.Changes) > 0 {
				a.Line("")
			}
			for _, line := range shown.Changes {
				a.Line("%s", line)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *Commands) projectTrust() *cobra.Command {
	return &cobra.Command{
		Use:   "trust [NAME|DIR]",
		Short: "Agree to what a repository's .cloister.yaml asks for",
		Long: `Show what a repository's .cloister.yaml asks for, as changes to what was agreed to
before, and agree to exactly these bytes. At a terminal it asks first. A later
change waits for another trust.`,
		Args: cli.Args(0, 1), ValidArgsFunction: a.CompleteProjects,
		RunE: func(_ *cobra.Command, args []string) error { return a.trust(args) },
	}
}

func (a *Commands) trust(args []string) error {
	d, _, p, err := a.named(args)
	if err != nil {
		return err
	}
	if p.Root == "" {
		return errors.New("trust project: its folder is gone")
	}
	k, err := projects.Register(d, string(p.Main), a.Complain)
	if err != nil {
		return err
	}
	name := filepath.Join(string(p.Root), config.ProjectFile)
	proposal, text, err := config.LoadProject(name)
	switch {
	case err != nil:
		return err
	case proposal == nil:
		return fmt.Errorf("trust project: %s has no %s", p.Root, config.ProjectFile)
	case config.Digest(text) == k.Digest:
		a.Notice("it is trusted already")
		return nil
	}
	for _, line := range linediff.Changes(k.Trusted, string(text)) {
		a.Line("%s", line)
	}
	if err := a.Out.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if term.IsTerminal(int(a.Stdin.Fd())) {
		fmt.Fprint(a.Stderr, "Agree to this? [y/N] ")
		answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // no answer is no
		if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
			return errors.New("trust project: not agreed to")
		}
	}
	now, err := k.Agree(d, text)
	if err != nil {
		return err
	}
	a.Notice("%s is trusted: %s", name, now.Digest)
	return nil
}

func (a *Commands) projectEdit() *cobra.Command {
	return &cobra.Command{
		Use: "edit [NAME|DIR]", Short: "Edit your own settings for a project, in $EDITOR", Args: cli.Args(0, 1),
		ValidArgsFunction: a.CompleteProjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, _, p, err := a.named(args)
			if err != nil {
				return err
			}
			k, err := projects.Register(d, string(p.Main), a.Complain)
			if err != nil {
				return err
			}
			file, err := k.MakeSettings(d)
			if err != nil {
				return err
			}
			if err := a.Edit(cmd.Context(), "project", file); err != nil {
				return err
			}
			_, _, err = config.LoadProject(file)
			return err
		},
	}
}

func (a *Commands) projectRemove() *cobra.Command {
	var home bool
	c := &cobra.Command{
		Use: "remove NAME|DIR", Aliases: []string{"rm"},
		Short: "Forget a project and your trust in it",
		Long: `Forget a project and your trust in it. Its files and your settings for it stay, and its
private home, unless --home is given.`,
		Args: cli.Args(1, 1), ValidArgsFunction: a.CompleteProjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, k, _, err := a.named(args)
			if err != nil {
				return err
			}
			live, err := a.Living(cmd.Context())
			if err != nil {
				return err
			}
			for _, s := range live {
				if s.Project == k.Root {
					return cli.Hinted(fmt.Errorf("remove project %s: the cloister %s lives in it", k.Name, s.Name),
						"stop it first: cloister stop "+s.Name)
				}
			}
			alone, err := projects.Lock(d)
			if err != nil {
				return fmt.Errorf("remove project: %w", err)
			}
			defer func() { _ = alone.Close() }()
			if err := k.Forget(d); errors.Is(err, fs.ErrNotExist) {
				return cli.Hinted(fmt.Errorf("remove project %s: it is not known", k.Name),
					"cloister project list tells those that are")
			} else if err != nil {
				return fmt.Errorf("remove project: %w", err)
			}
			host, err := a.Resolver(d)
			if err != nil {
				return err
			}
			if err := host.Places().ForgetOf(k.Root); err != nil {
				return err
			}
			if err := trust.In(d.State).Forget(k.Root); err != nil {
				return err
			}
			if home {
				if err := (homes.Home{Dir: homes.Of(d.Data, k.Root), Project: k.Root}).Remove(); err != nil {
					return err
				}
			}
			a.Line("%s", k.Name)
			return nil
		},
	}
	c.Flags().BoolVar(&home, "home", false, "remove its private home too, with what agents and programs keep there")
	return c
}
