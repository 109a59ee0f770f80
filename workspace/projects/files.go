package projects

import (
	"fmt"
	"path/filepath"
	"slices"

	"cloister/api"
	"cloister/config"
	"cloister/host/taint"
	"cloister/internal/hint"
	"cloister/internal/source"
	"cloister/internal/xdg"
	"cloister/workspace"
	"cloister/workspace/protect"
)

// Settings are a configuration with what is said of one project over it.
type Settings struct {
	Config *config.Config
	// Files are for the session.
	Files []api.ProjectFile
	// Waits reports whether the repository asks for more than the user gave.
	Waits bool
	// Outer is what the projects around say of its files.
	Outer []protect.Outer
}

// Over puts the files that speak of a project over a configuration.
func (k Known) Over(d xdg.Dirs, places *taint.Register, p workspace.Project, cfg *config.Config) (Settings, error) {
	files, err := k.files(d, p, cfg)
	if err != nil {
		return Settings{}, err
	}
	around, err := k.outerFiles(d, places, p, cfg)
	if err != nil {
		return Settings{}, err
	}
	w := Settings{Config: cfg, Files: forGuardian(slices.Concat(files, around))}
	for _, f := range files {
		w.Config = f.project.Over(w.Config, f.Narrowed)
		w.Waits = w.Waits || f.Narrowed
	}
	for _, f := range around { // last, so that nothing said inside gives it back
		w.Config = f.project.Over(w.Config, true)
		w.Outer = append(w.Outer, *f.outer)
	}
	return w, nil
}

// Texts are the files that speak of a project, for the guardian.
func (k Known) Texts(d xdg.Dirs, places *taint.Register, p workspace.Project,
	cfg *config.Config) ([]api.ProjectFile, error) {
	files, err := k.files(d, p, cfg)
	if err != nil {
		return nil, err
	}
	around, err := k.outerFiles(d, places, p, cfg)
	if err != nil {
		return nil, err
	}
	return forGuardian(slices.Concat(files, around)), nil
}

// BadProposal says that a repository's own file cannot be read. A payload can write one
// where there was none.
type BadProposal struct{ error }

func (e *BadProposal) Unwrap() error { return e.error }

// Hints are the words of what to do.
func (*BadProposal) Hints() []string {
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
func (k Known) files(d xdg.Dirs, p workspace.Project, cfg *config.Config) ([]ownFile, error) {
	var out []ownFile
	name := k.SettingsFile(d)
	own, text, err := config.LoadProject(name)
	if err != nil {
		return nil, err
	}
	if own != nil {
		if own.Root != k.Root {
			return nil, hint.With(fmt.Errorf("%s is for the project %q, not for %s", name, own.Root, k.Root),
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
		return nil, &BadProposal{err}
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

// Proposal is the state of a repository's proposal (none, bad, narrows, waits or trusted), with
// its text.
func (k Known) Proposal(d xdg.Dirs, root string, cfg *config.Config) (state string, text []byte) {
	if own, _, err := config.LoadProject(k.SettingsFile(d)); err == nil && own != nil {
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
