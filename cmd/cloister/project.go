package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/config"
	"cloister/host/taint"
	"cloister/internal/durable"
	"cloister/internal/linediff"
	"cloister/internal/nearest"
	"cloister/internal/source"
	"cloister/internal/xdg"
	"cloister/workspace"
	"cloister/workspace/homes"
	"cloister/workspace/protect"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// known is what is remembered of a project since its first use.
type known struct {
	Name      string    `json:"name"`
	Root      string    `json:"root"`
	FirstUsed time.Time `json:"first_used"`
	// Trusted is the proposal that the person agreed to, whole: what changed
	// since is shown against it.
	Trusted string `json:"trusted,omitempty"`
	Digest  string `json:"trusted_digest,omitempty"`
}

func projectsDir(d xdg.Dirs) string { return filepath.Join(d.State, "projects") }

func (k known) file(d xdg.Dirs) string { return projectFile(d, k.Root) }

func projectFile(d xdg.Dirs, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(projectsDir(d), hex.EncodeToString(sum[:8])+".json")
}

// settings is the person's own file for a project.
func (k known) settings(d xdg.Dirs) string {
	return filepath.Join(d.Config, "projects", k.Name+".yaml")
}

// projects reads every known project. One that cannot be read is reported, and the
// others are there.
func (a *app) projects(d xdg.Dirs) ([]known, error) {
	return readProjects(d, func(_ string, err error) { a.notice("cloister: %v; the others are there", err) })
}

func readProjects(d xdg.Dirs, bad func(name string, err error)) ([]known, error) {
	files, err := filepath.Glob(filepath.Join(projectsDir(d), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	var out []known
	for _, name := range files {
		k, err := readKnown(name)
		if err != nil {
			bad(name, err)
			continue
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(x, y known) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Root, y.Root)) })
	return out, nil
}

func readKnown(name string) (known, error) {
	var k known
	text, err := os.ReadFile(name)
	if err != nil {
		return k, fmt.Errorf("read project: %w", err)
	}
	if err := json.Unmarshal(text, &k); err != nil || !filepath.IsAbs(k.Root) || k.Name == "" {
		return k, fmt.Errorf("read project: %s says nothing sound", name)
	}
	return k, nil
}

// register finds a project by its path, and remembers one at its first use. What says
// nothing sound is kept aside here alone: registration and trust end with that, so
// --quiet does not hide it, and who saves a sound one meanwhile waits.
func (a *app) register(d xdg.Dirs, root string) (known, error) {
	name := projectFile(d, root)
	k, err := readKnown(name)
	if _, unread := errors.AsType[*fs.PathError](err); err == nil || unread && !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	alone, err := lockProjects(d)
	if err != nil {
		return k, fmt.Errorf("remember project: %w", err)
	}
	defer func() { _ = alone.Close() }()
	if k, err := readKnown(name); err == nil {
		return k, nil // remembered by another meanwhile
	}
	all, err := readProjects(d, func(file string, err error) {
		if _, unread := errors.AsType[*fs.PathError](err); !unread && os.Rename(file, file+".bad") == nil {
			err = fmt.Errorf("%w; it is kept as %s.bad, and its project and your trust in it are forgotten", err, file)
		}
		a.complain(err)
	})
	if err != nil {
		return k, err
	}
	k = known{Name: filepath.Base(root), Root: root, FirstUsed: time.Now().UTC().Round(0)}
	if slices.ContainsFunc(all, func(o known) bool { return o.Name == k.Name }) {
		k.Name += "-" + strings.TrimSuffix(filepath.Base(name), ".json")[:6]
	}
	return k, k.save(d)
}

// lockProjects waits until no one else registers, trusts or forgets a project; who
// closes it lets go.
func lockProjects(d xdg.Dirs) (*os.File, error) {
	if err := os.MkdirAll(projectsDir(d), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(projectsDir(d), ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (k known) save(d xdg.Dirs) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = durable.WriteFile(k.file(d), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember project: %w", err)
	}
	return nil
}

// projectWords are a configuration with what is said of one project over it.
type projectWords struct {
	cfg   *config.Config
	files []api.ProjectFile // for the session
	waits bool              // the repository asks for more than the person gave
	outer []protect.Outer   // what the projects around say of its files
}

// ofProject is a configuration with what the person and the repository say of one
// project over it, and what the projects around it take away. What the repository asks
// for beyond the person's word waits for cloister project trust.
func (a *app) ofProject(d xdg.Dirs, places *taint.Register, p workspace.Project,
	cfg *config.Config) (projectWords, error) {
	k, err := a.register(d, string(p.Main))
	if err != nil {
		return projectWords{}, err
	}
	return k.over(d, places, p, cfg)
}

// unused is the configuration of a project for whoever only looks: that is no use
// of it.
func (a *app) unused(p workspace.Project, cfg *config.Config) (projectWords, error) {
	d, err := a.dirs()
	if err != nil {
		return projectWords{}, err
	}
	host, err := a.host(d)
	if err != nil {
		return projectWords{}, err
	}
	k, err := readKnown(projectFile(d, string(p.Main)))
	if err != nil {
		k = known{Name: filepath.Base(string(p.Main)), Root: string(p.Main)}
	}
	return k.over(d, host.Places(), p, cfg)
}

// over puts the files that speak of a project over a configuration.
func (k known) over(d xdg.Dirs, places *taint.Register, p workspace.Project, cfg *config.Config) (projectWords, error) {
	files, err := k.files(d, p, cfg)
	if err != nil {
		return projectWords{}, err
	}
	around, err := k.outerFiles(d, places, p, cfg)
	if err != nil {
		return projectWords{}, err
	}
	w := projectWords{cfg: cfg, files: forGuardian(slices.Concat(files, around))}
	for _, f := range files {
		w.cfg = f.project.Over(w.cfg, f.Narrowed)
		w.waits = w.waits || f.Narrowed
	}
	for _, f := range around { // last, so that nothing said inside gives it back
		w.cfg = f.project.Over(w.cfg, true)
		w.outer = append(w.outer, *f.outer)
	}
	return w, nil
}

// tellNarrowed says that a repository's proposal waits.
func (a *app) tellNarrowed() {
	a.notice("cloister: %s asks for more than you gave; until you agree, only what it takes away applies",
		config.ProjectFile)
	a.notice("hint: cloister project trust")
}

// badProposal says that a repository's own file cannot be read. A payload can write one
// where there was none.
type badProposal struct{ error }

func (e *badProposal) Unwrap() error { return e.error }

// Hints are the words of what to do.
func (*badProposal) Hints() []string {
	return []string{"an agent may have made it: look at it, and mend or remove it (cloister project clean removes it)"}
}

// ownFile is one of a project's files, with what of it applies.
type ownFile struct {
	api.ProjectFile
	project *config.Project
	outer   *protect.Outer // of a project around: what it says of files
}

// files are those that speak of a project: the person's, then the repository's,
// which is held against what the person gives in cfg.
func (k known) files(d xdg.Dirs, p workspace.Project, cfg *config.Config) ([]ownFile, error) {
	var out []ownFile
	name := k.settings(d)
	own, text, err := config.LoadProject(name)
	if err != nil {
		return nil, err
	}
	if own != nil {
		if own.Root != k.Root {
			return nil, hinted(fmt.Errorf("%s is for the project %q, not for %s", name, own.Root, k.Root),
				"write root: "+k.Root+" in it")
		}
		out = append(out, ownFile{ProjectFile: api.ProjectFile{Name: name, Text: string(text)}, project: own})
		cfg = own.Over(cfg, false)
	}
	name = filepath.Join(string(p.Root), config.ProjectFile)
	proposal, text, err := config.LoadProject(name)
	if err == nil && proposal != nil && proposal.Root != "" {
		err = &source.Problem{Position: source.Position{File: name}, Msg: "root: a repository does not know where it lies",
			Hint: "leave root out"}
	}
	if err != nil {
		return nil, &badProposal{err}
	}
	if proposal == nil {
		return out, nil
	}
	f := ownFile{ProjectFile: api.ProjectFile{Name: name, Text: string(text)}, project: proposal}
	if proposal.Widens(cfg) && config.Digest(text) != k.Digest {
		f.Narrowed, f.project = true, proposal.Narrowed()
	}
	return append(out, f), nil
}

// hereWords are the project of the current folder and its files, for whoever
// only asks; none where there is no project.
func (a *app) hereWords() (string, []api.ProjectFile, error) {
	p, err := a.findProject(".")
	if err != nil {
		return "", nil, nil
	}
	return a.ownWords(p)
}

// ownWords are a project's root and its files.
func (a *app) ownWords(p workspace.Project) (string, []api.ProjectFile, error) {
	d, err := a.dirs()
	if err != nil {
		return "", nil, err
	}
	k, err := readKnown(projectFile(d, string(p.Main)))
	if err != nil {
		k = known{Name: filepath.Base(string(p.Main)), Root: string(p.Main)} // not used yet
	}
	cfg, _, err := a.load()
	if err != nil {
		cfg = config.Default() // whoever answers says what is wrong with the file
	}
	files, err := k.files(d, p, cfg)
	if err != nil {
		return "", nil, err
	}
	host, err := a.host(d)
	if err != nil {
		return "", nil, err
	}
	around, err := k.outerFiles(d, host.Places(), p, cfg)
	if err != nil {
		return "", nil, err
	}
	return k.Root, forGuardian(slices.Concat(files, around)), nil
}

func (a *app) projectCommand() *cobra.Command {
	return group("project", "List, show, edit, trust and forget projects",
		a.projectList(), a.projectShow(), a.projectEdit(), a.projectTrust(), a.projectClean(), a.projectRemove())
}

// named finds a known project by its name or folder; without one, that of the
// current folder.
func (a *app) named(d xdg.Dirs, args []string) (known, workspace.Project, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	all, err := a.projects(d)
	if err != nil {
		return known{}, workspace.Project{}, err
	}
	var names []string
	for _, k := range all {
		names = append(names, k.Name)
		if k.Name == args[0] {
			p, err := a.findProject(k.Root)
			if err != nil {
				// A folder that was moved or deleted is still known.
				p = workspace.Project{}
			}
			return k, p, nil
		}
	}
	p, err := a.findProject(args[0])
	if err != nil {
		hint := "cloister project list tells the names"
		if near := nearest.Word(args[0], names); near != "" {
			hint = "did you mean " + near + "?"
		}
		if !strings.ContainsRune(args[0], '/') && args[0] != "." {
			err = fmt.Errorf("there is no project %q, and no folder of that name here", args[0])
		}
		return known{}, p, hinted(err, hint)
	}
	if k, err := readKnown(projectFile(d, string(p.Main))); err == nil {
		return k, p, nil
	}
	return known{Name: filepath.Base(string(p.Main)), Root: string(p.Main)}, p, nil
}

// proposalState is a repository's proposal, as the list tells it.
func (k known) proposalState(d xdg.Dirs, root string, cfg *config.Config) (state string, text []byte) {
	if own, _, err := config.LoadProject(k.settings(d)); err == nil && own != nil {
		cfg = own.Over(cfg, false)
	}
	p, text, err := config.LoadProject(filepath.Join(root, config.ProjectFile))
	switch {
	case err != nil:
		return "bad", text
	case p == nil:
		return "none", nil
	case !p.Widens(cfg):
		return "narrows", text
	case config.Digest(text) == k.Digest:
		return "trusted", text
	default:
		return "waits", text
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
	live, err := a.living(ctx)
	if err != nil {
		return nil, err
	}
	cfg, _, err := a.load()
	if err != nil {
		return nil, err
	}
	out := []listedProject{}
	for _, k := range all {
		l := listedProject{Name: k.Name, Root: k.Root, FirstUsed: k.FirstUsed}
		if fi, err := os.Stat(k.Root); err == nil && fi.IsDir() {
			l.Exists = true
		}
		l.Proposal, _ = k.proposalState(d, k.Root, cfg)
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
		Use: "list", Aliases: []string{"ls"}, Short: "List the projects that were used", Args: counted(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.dirs()
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
				return a.json(all)
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
					row = slices.Insert(row, 3, sizeText(*p.Home))
				}
				rows = append(rows, row)
			}
			a.table(rows)
			if len(all) == 0 {
				a.notice("no project was used yet; cloister start in a folder begins one")
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
	if d, err := a.dirs(); err == nil && len(args) == 0 {
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
		Use: "show [NAME|DIR]", Short: "Show one project", Args: counted(0, 1), ValidArgsFunction: a.completeProjects,
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			k, p, err := a.named(d, args)
			if err != nil {
				return err
			}
			root := cmp.Or(string(p.Root), k.Root)
			cfg, _, err := a.load()
			if err != nil {
				return err
			}
			state, text := k.proposalState(d, root, cfg)
			shown := shownProject{k.Name, k.Root, k.settings(d), state, []string{}}
			switch state {
			case "bad":
				_, _, why := config.LoadProject(filepath.Join(root, config.ProjectFile))
				a.complain(why)
			case "waits":
				shown.Changes = linediff.Changes(k.Trusted, string(text))
			}
			if asJSON {
				return a.json(shown)
			}
			a.table([][]string{{"name", k.Name}, {"root", k.Root}, {"settings", shown.Settings}, {"proposal", state}})
			if len(shown.Changes) > 0 {
				a.line("")
			}
			for _, line := range shown.Changes {
				a.line("%s", line)
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
		Args: counted(0, 1), ValidArgsFunction: a.completeProjects,
		RunE: func(_ *cobra.Command, args []string) error { return a.trust(args) },
	}
}

func (a *app) trust(args []string) error {
	d, err := a.dirs()
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
	k, err := a.register(d, string(p.Main))
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
		a.notice("it is trusted already")
		return nil
	}
	for _, line := range linediff.Changes(k.Trusted, string(text)) {
		a.line("%s", line)
	}
	if err := a.out.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if term.IsTerminal(int(a.stdin.Fd())) {
		fmt.Fprint(a.stderr, "Agree to this? [y/N] ")
		answer, _ := bufio.NewReader(a.stdin).ReadString('\n') // no answer is no
		if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
			return errors.New("trust project: not agreed to")
		}
	}
	alone, err := lockProjects(d)
	if err != nil {
		return fmt.Errorf("trust project: %w", err)
	}
	defer func() { _ = alone.Close() }()
	// What was shown, as changes to what was agreed to, must be what is agreed to now:
	// the bytes, not what the file says by now, and over no other answer.
	now, err := readKnown(k.file(d))
	switch look := "look at what is there now: cloister project trust"; {
	case errors.Is(err, fs.ErrNotExist):
		return hinted(fmt.Errorf("trust project: %s was forgotten meanwhile", k.Name), look)
	case err != nil:
		return fmt.Errorf("trust project: %w", err)
	case now.Digest != k.Digest && now.Digest != config.Digest(text):
		return hinted(errors.New("trust project: another version was agreed to meanwhile"), look)
	}
	now.Trusted, now.Digest = string(text), config.Digest(text)
	if err := now.save(d); err != nil {
		return err
	}
	a.notice("%s is trusted: %s", name, now.Digest)
	return nil
}

func (a *app) projectEdit() *cobra.Command {
	return &cobra.Command{
		Use: "edit [NAME|DIR]", Short: "Edit your own settings for a project, in $EDITOR", Args: counted(0, 1),
		ValidArgsFunction: a.completeProjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			_, p, err := a.named(d, args)
			if err != nil {
				return err
			}
			k, err := a.register(d, string(p.Main))
			if err != nil {
				return err
			}
			file := k.settings(d)
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
		Args: counted(1, 1), ValidArgsFunction: a.completeProjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			k, _, err := a.named(d, args)
			if err != nil {
				return err
			}
			live, err := a.living(cmd.Context())
			if err != nil {
				return err
			}
			for _, s := range live {
				if s.Project == k.Root {
					return hinted(fmt.Errorf("remove project %s: the cloister %s lives in it", k.Name, s.Name),
						"stop it first: cloister stop "+s.Name)
				}
			}
			alone, err := lockProjects(d)
			if err != nil {
				return fmt.Errorf("remove project: %w", err)
			}
			defer func() { _ = alone.Close() }()
			if err := os.Remove(k.file(d)); errors.Is(err, fs.ErrNotExist) {
				return hinted(fmt.Errorf("remove project %s: it is not known", k.Name),
					"cloister project list tells those that are")
			} else if err != nil {
				return fmt.Errorf("remove project: %w", err)
			}
			host, err := a.host(d)
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
			a.line("%s", k.Name)
			return nil
		},
	}
	c.Flags().BoolVar(&home, "home", false, "remove its private home too, with what agents and programs keep there")
	return c
}
