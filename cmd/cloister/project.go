package main

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

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/host/taint"
	"cloister/internal/linediff"
	"cloister/internal/nearest"
	"cloister/internal/xdg"
	"cloister/workspace"
	"cloister/workspace/homes"
	"cloister/workspace/projects"
	"cloister/workspace/protect"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// projects reads every known project. One that cannot be read is reported, and the
// others are there.
func (a *app) projects(d xdg.Dirs) ([]projects.Known, error) {
	return projects.ReadAll(d, func(_ string, err error) { a.Notice("cloister: %v; the others are there", err) })
}

// ofProject is a configuration with what the person and the repository say of one
// project over it, and what the projects around it take away. What the repository asks
// for beyond the person's word waits for cloister project trust.
func (a *app) ofProject(d xdg.Dirs, places *taint.Register, p workspace.Project,
	cfg *config.Config) (projects.Settings, error) {
	k, err := projects.Register(d, string(p.Main), a.Complain)
	if err != nil {
		return projects.Settings{}, err
	}
	return k.Over(d, places, p, cfg)
}

// unused is the configuration of a project for whoever only looks: that is no use
// of it.
func (a *app) unused(p workspace.Project, cfg *config.Config) (projects.Settings, error) {
	d, host, err := a.DirsAndResolver()
	if err != nil {
		return projects.Settings{}, err
	}
	k, err := projects.Read(d, string(p.Main))
	if err != nil {
		k = projects.Unused(string(p.Main))
	}
	return k.Over(d, host.Places(), p, cfg)
}

// tellNarrowed says that a repository's proposal waits.
func (a *app) tellNarrowed() {
	a.Notice("cloister: %s asks for more than you gave; until you agree, only what it takes away applies",
		config.ProjectFile)
	a.Notice("hint: cloister project trust")
}

// hereWords are the project of the current folder and its files, for whoever
// only asks; none where there is no project.
func (a *app) hereWords() (string, []api.ProjectFile, error) {
	p, err := a.FindProject(".")
	if err != nil {
		return "", nil, nil
	}
	return a.ownWords(p)
}

// ownWords are a project's root and its files.
func (a *app) ownWords(p workspace.Project) (string, []api.ProjectFile, error) {
	d, err := a.Dirs()
	if err != nil {
		return "", nil, err
	}
	k, err := projects.Read(d, string(p.Main))
	if err != nil {
		k = projects.Unused(string(p.Main))
	}
	cfg, _, err := a.Load()
	if err != nil {
		cfg = config.Default() // whoever answers says what is wrong with the file
	}
	host, err := a.Resolver(d)
	if err != nil {
		return "", nil, err
	}
	files, err := k.Texts(d, host.Places(), p, cfg)
	if err != nil {
		return "", nil, err
	}
	return k.Root, files, nil
}

func (a *app) projectCommand() *cobra.Command {
	return cli.Group("project", "List, show, edit, trust and forget projects",
		a.projectList(), a.projectShow(), a.projectEdit(), a.projectTrust(), a.projectClean(), a.projectRemove())
}

// named finds a known project by its name or folder; without one, that of the
// current folder.
func (a *app) named(d xdg.Dirs, args []string) (projects.Known, workspace.Project, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	all, err := a.projects(d)
	if err != nil {
		return projects.Known{}, workspace.Project{}, err
	}
	var names []string
	for _, k := range all {
		names = append(names, k.Name)
		if k.Name == args[0] {
			p, err := a.FindProject(k.Root)
			if err != nil {
				// A folder that was moved or deleted is still known.
				p = workspace.Project{}
			}
			return k, p, nil
		}
	}
	p, err := a.FindProject(args[0])
	if err != nil {
		hint := "cloister project list tells the names"
		if near := nearest.Word(args[0], names); near != "" {
			hint = "did you mean " + near + "?"
		}
		if !strings.ContainsRune(args[0], '/') && args[0] != "." {
			err = fmt.Errorf("there is no project %q, and no folder of that name here", args[0])
		}
		return projects.Known{}, p, cli.Hinted(err, hint)
	}
	if k, err := projects.Read(d, string(p.Main)); err == nil {
		return k, p, nil
	}
	return projects.Unused(string(p.Main)), p, nil
}

// sayOuter names the projects around, whose rules hold too.
func (a *app) sayOuter(outer []protect.Outer) {
	for i, o := range outer {
		if i == 0 || outer[i-1].Root != o.Root {
			a.Notice("cloister: the rules of the project %s hold here too: this one lies inside it", o.Root)
		}
	}
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

func (a *app) listedProjects(ctx context.Context, d xdg.Dirs) ([]listedProject, error) {
	all, err := a.projects(d)
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

func (a *app) projectList() *cobra.Command {
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

// completeProjects offers the names of projects.
func (a *app) completeProjects(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if d, err := a.Dirs(); err == nil && len(args) == 0 {
		all, _ := a.projects(d) // Tab is no place for errors
		for _, k := range all {
			names = append(names, k.Name+"\t"+k.Root)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// shownProject is what show tells.
type shownProject struct {
	Name     string   `json:"name"`
	Root     string   `json:"root"`
	Settings string   `json:"settings"`
	Proposal string   `json:"proposal"`
	Changes  []string `json:"changes"` // what waits for a person's trust
}

func (a *app) projectShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [NAME|DIR]", Short: "Show one project", Args: cli.Args(0, 1), ValidArgsFunction: a.completeProjects,
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			k, p, err := a.named(d, args)
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

func (a *app) projectTrust() *cobra.Command {
	return &cobra.Command{
		Use:   "trust [NAME|DIR]",
		Short: "Agree to what a repository's .cloister.yaml asks for",
		Long: `Show what a repository's .cloister.yaml asks for, as changes to what was agreed to
before, and agree to exactly these bytes. At a terminal it asks first. A later
change waits for another trust.`,
		Args: cli.Args(0, 1), ValidArgsFunction: a.completeProjects,
		RunE: func(_ *cobra.Command, args []string) error { return a.trust(args) },
	}
}

func (a *app) trust(args []string) error {
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	_, p, err := a.named(d, args)
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
	alone, err := projects.Lock(d)
	if err != nil {
		return fmt.Errorf("trust project: %w", err)
	}
	defer func() { _ = alone.Close() }()
	// What was shown, as changes to what was agreed to, must be what is agreed to now:
	// the bytes, not what the file says by now, and over no other answer.
	now, err := k.Reread(d)
	switch look := "look at what is there now: cloister project trust"; {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Hinted(fmt.Errorf("trust project: %s was forgotten meanwhile", k.Name), look)
	case err != nil:
		return fmt.Errorf("trust project: %w", err)
	case now.Digest != k.Digest && now.Digest != config.Digest(text):
		return cli.Hinted(errors.New("trust project: another version was agreed to meanwhile"), look)
	}
	now.Trusted, now.Digest = string(text), config.Digest(text)
	if err := now.Save(d); err != nil {
		return err
	}
	a.Notice("%s is trusted: %s", name, now.Digest)
	return nil
}

func (a *app) projectEdit() *cobra.Command {
	return &cobra.Command{
		Use: "edit [NAME|DIR]", Short: "Edit your own settings for a project, in $EDITOR", Args: cli.Args(0, 1),
		ValidArgsFunction: a.completeProjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			_, p, err := a.named(d, args)
			if err != nil {
				return err
			}
			k, err := projects.Register(d, string(p.Main), a.Complain)
			if err != nil {
				return err
			}
			file := k.SettingsFile(d)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return fmt.Errorf("edit project: %w", err)
			}
			f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = fmt.Fprintf(f, "# Keys as in config.yaml, but for those that are the whole machine's: proxy.hosts,\n# "+
					"upstream_ca and approval_timeout. Words take the place of those there,\n# lists are added to them.\nversion: "+
					"1\nroot: %q\n", k.Root)
				err = errors.Join(err, f.Close())
			} else if errors.Is(err, fs.ErrExist) {
				err = nil
			}
			if err != nil {
				return fmt.Errorf("edit project: %w", err)
			}
			if err := a.edit(cmd.Context(), "project", file); err != nil {
				return err
			}
			_, _, err = config.LoadProject(file)
			return err
		},
	}
}

func (a *app) projectRemove() *cobra.Command {
	var home bool
	c := &cobra.Command{
		Use: "remove NAME|DIR", Aliases: []string{"rm"},
		Short: "Forget a project and your trust in it",
		Long: `Forget a project and your trust in it. Its files and your settings for it stay, and its
private home, unless --home is given.`,
		Args: cli.Args(1, 1), ValidArgsFunction: a.completeProjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			k, _, err := a.named(d, args)
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
			if err := devcontainerTrust(d).Forget(k.Root); err != nil {
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
