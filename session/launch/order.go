// Package launch resolves what a person typed to start a cloister into one plan,
// and starts the process that carries it out.
//
// An [Order] is what was typed, as data. [Resolve] joins it with the configuration,
// the project and the environment into a [Plan], which is not changed any more. The
// command line, the guardian's window and every later caller start a cloister by
// the same two. [Self] starts this program again as the shim that an order is for.
//
// The promise: the words of an order are checked in one place, the same for
// whoever gave it, and an order that has gone to a shim is the one that was
// checked. It builds no enclosure, asks no question and prints nothing.
//
// Most readers want [Order].
package launch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/config"
	"cloister/internal/hint"
	"cloister/internal/nearest"
	"cloister/policy/destination"
	"cloister/sandbox/image"
	"cloister/session"
	"cloister/session/registry"
	"cloister/workspace/protect"
)

// An Order is what a person typed to start a cloister. What is empty is the
// configuration's to say, or has no limit.
type Order struct {
	Verb string   `json:"verb"` // run, start or srt: errors begin with it
	Args []string `json:"args"` // the command of run, the agent's arguments of start

	Agent     string `json:"agent,omitempty"`
	Isolation string `json:"isolation,omitempty"`
	Image     string `json:"image,omitempty"`
	Name      string `json:"name,omitempty"`
	Project   string `json:"project,omitempty"` // a folder
	Branch    string `json:"branch,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Report    string `json:"report,omitempty"`
	// User is what the command's user is called inside, instead of the host's name.
	User string `json:"user,omitempty"`
	// Devcontainer is the devcontainer's file, "." for the one that is found.
	Devcontainer string `json:"devcontainer,omitempty"`

	Allow   []string `json:"allow,omitempty"`
	Deny    []string `json:"deny,omitempty"`
	Expose  []string `json:"expose,omitempty"`
	Refs    []string `json:"refs,omitempty"`
	Env     []string `json:"env,omitempty"`
	Accept  []string `json:"accept,omitempty"`
	Policy  []string `json:"policy,omitempty"` // Cedar files
	Publish []string `json:"publish,omitempty"`

	Memory    string        `json:"memory,omitempty"`
	CPUs      float64       `json:"cpus,omitempty"`
	AllCPUs   bool          `json:"all_cpus,omitempty"` // no limit, whatever the configuration has
	PIDs      int64         `json:"pids,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
	Idle      time.Duration `json:"idle,omitempty"`
	NoNetwork bool          `json:"no_network,omitempty"`

	// Cols and Rows are the size of the terminal that waits for the cloister.
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
	// Rejoin answers with the cloister of that project and agent where one runs.
	Rejoin bool `json:"rejoin,omitempty"`

	// Awaited ends the cloister where the process that ordered it is gone before it was answered that it runs: no one
	// else knows of it.
	Awaited bool `json:"awaited,omitempty"`

	// From is the folder of a memory that the cloister goes on from, which session/memory wrote.
	From string `json:"from,omitempty"`

	// What the settings of srt and a server add, for which run has no flag.
	Cedar    []api.CedarFile `json:"cedar,omitempty"`
	Narrow   []api.CedarFile `json:"narrow,omitempty"` // that a server may replace later
	Hide     []string        `json:"hide,omitempty"`
	Protect  []string        `json:"protect,omitempty"`
	ReadOnly bool            `json:"read_only,omitempty"`
}

// ResidueIdentity accepts a project that is another one than at its last use.
const ResidueIdentity = "project-identity"

// ResidueRandomness accepts that random values repeat in the children of one memory.
const ResidueRandomness = "fork-randomness"

// ResidueEmulated accepts a machine that no processor encloses.
const ResidueEmulated = "microvm-emulated"

// ResidueEngine accepts root inside a machine of its own, as every user of its engine is.
const ResidueEngine = "microvm-engine"

// residuePolicy begins the residues of statements of policy files.
const residuePolicy = "policy:"

// Of less than a hundredth of a processor the kernel makes no bound, nor does it of what it cannot count.
const minCPUs, maxCPUs = 0.01, 8192.0

// Isolations are the words of --isolation.
func Isolations() []string { return append(config.Levels(), "auto") }

// Modes are the words of --mode.
func Modes() []string { return []string{"enforce", "shadow", "record"} }

// Workspaces are the words of --workspace.
func Workspaces() []string { return []string{"live", "overlay", "scratch", "git", "none"} }

// Residues are the names that --accept takes, but for those of statements of policy files.
func Residues() []string {
	return []string{"wide-workspace", "cgroup-limits", ResidueIdentity, protect.ResidueUnprotected,
		ResidueRandomness, ResidueEmulated, ResidueEngine}
}

// Check refuses words that mean nothing, before anything is looked at or made. Its
// errors are of type *[hint.UsageError].
func (o *Order) Check() error {
	if err := o.checkWords(); err != nil {
		return err
	}
	if o.Agent != "" && !config.IsProgram(o.Agent) {
		return hint.Usage("such as --agent claude; any command at all: cloister run -- CMD",
			"%s: --agent %q is not the name of a program", o.Verb, o.Agent)
	}
	if o.CPUs < 0 || o.PIDs < 0 || o.Timeout < 0 || o.Idle < 0 {
		return hint.Usage("", "%s: a limit cannot be negative", o.Verb)
	}
	// No number at all is neither less nor more than one.
	if o.CPUs != 0 && !(o.CPUs >= minCPUs && o.CPUs <= maxCPUs) {
		return hint.Usage("such as 2 or 0.5", "%s: --cpus %v is not between %v and %v", o.Verb, o.CPUs, minCPUs, maxCPUs)
	}
	if len(o.Allow)+len(o.Deny) > 0 {
		if err := destination.Check(o.Allow, o.Deny); err != nil {
			return hint.Usage("write DOMAIN or DOMAIN:PORT, such as api.example.com or *.example.com:8443", "%s: %v", o.Verb,
				err)
		}
	}
	if o.Image != "" {
		if err := image.Check(o.Image); err != nil {
			return hint.With(hint.Usage("", "%s: --image: %v", o.Verb, err), hint.Of(err)...)
		}
	}
	if _, err := o.published(); err != nil {
		return hint.Usage("write PORT or HOSTPORT:PORT, such as 8080 or 8080:80", "%s: --publish %v", o.Verb, err)
	}
	for flag, list := range map[string][]string{"--publish": o.Publish, "--allow": o.Allow} {
		if o.NoNetwork && len(list) > 0 {
			return hint.Usage("", "%s: --no-network and %s exclude each other", o.Verb, flag)
		}
	}
	if o.Name != "" {
		if err := registry.CheckName(o.Name); err != nil {
			return hint.Usage("", "%s: %v", o.Verb, err)
		}
	}
	return nil
}

// checkWords refuses words that are none of a flag's.
func (o *Order) checkWords() error {
	for _, w := range []struct {
		flag, value string
		words       []string
	}{
		{"--isolation", o.Isolation, Isolations()},
		{"--mode", o.Mode, Modes()},
		{"--workspace", o.Workspace, Workspaces()},
	} {
		if w.value != "" && !slices.Contains(w.words, w.value) {
			return hint.Usage("one of: "+strings.Join(w.words, ", "), "%s: %s %q is not known", o.Verb, w.flag, w.value)
		}
	}
	for _, word := range o.Accept {
		name, ok := strings.CutPrefix(word, "residue:")
		if ok && (strings.HasPrefix(name, residuePolicy) || slices.Contains(Residues(), name)) {
			continue // the policy files say which statements there are
		}
		advice := "one of: residue:" + strings.Join(Residues(), ", residue:")
		if near := nearest.Word(name, Residues()); near != "" {
			advice = "did you mean --accept residue:" + near + "?"
		}
		return hint.Usage(advice, "%s: --accept %q names no residue", o.Verb, word)
	}
	return nil
}

// Accepted are the names of the residues that --accept names.
func (o *Order) Accepted() []string {
	var out []string
	for _, word := range o.Accept {
		out = append(out, strings.TrimPrefix(word, "residue:"))
	}
	return out
}

// Fill gives what was not typed the words of the configuration.
func (o *Order) Fill(cfg *config.Config) {
	o.Isolation = cmp.Or(o.Isolation, string(cfg.Defaults.Isolation))
	o.Mode = cmp.Or(o.Mode, string(cfg.Defaults.Mode))
	o.Workspace = cmp.Or(o.Workspace, string(cfg.Defaults.Workspace))
	o.Image = cmp.Or(o.Image, cfg.Image)
}

// published reads what --publish names.
func (o *Order) published() ([]api.Published, error) {
	var out []api.Published
	for _, text := range o.Publish {
		p, err := session.ParsePublished(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(other api.Published) bool { return other.HostPort == p.HostPort }) {
			return nil, fmt.Errorf("%q: port %d of this machine is named twice", text, p.HostPort)
		}
		out = append(out, p)
	}
	return out, nil
}

// Variables are the variables that -e names: with a value, or this process's own,
// which is left out where env has none.
func (o *Order) Variables(env map[string]string) ([]string, error) {
	var out []string
	for _, e := range o.Env {
		name, _, set := strings.Cut(e, "=")
		if name == "" || strings.ContainsRune(e, 0) {
			return nil, hint.Usage("-e NAME=VALUE, or -e NAME for the host's", "%s: -e %q has no name", o.Verb, e)
		}
		if set {
			out = append(out, e)
		} else if value, ok := env[name]; ok {
			out = append(out, name+"="+value)
		}
	}
	return out, nil
}

// IsUsage reports whether an error is about the words that were typed.
func IsUsage(err error) bool {
	_, is := errors.AsType[*hint.UsageError](err)
	return is
}
