package devcontainer

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"cloister/devcontainer/demand"
	"cloister/devcontainer/features"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/metadata"
)

// mostFeatures bounds what a devcontainer installs, with all that it depends on.
const mostFeatures = 64

// mostUnpacked bounds what they are together.
const mostUnpacked = 256 << 20

// Absent is a feature of a registry that is not here.
type Absent struct {
	ID string
	// Digest is what it is pinned to; empty where it is to nothing.
	Digest string
}

// lockFile is where the digests of features are, from the project's top.
func (d *Devcontainer) lockFile() string { return path.Join(d.dir(), LockName(d.File)) }

// readLock reads what the features of registries are pinned to.
func (d *Devcontainer) readLock() error {
	name := d.lockFile()
	if err := d.optional(name); err != nil {
		return err
	}
	var err error
	d.lock, err = features.ReadLock(name, d.files.all[name].text)
	return err
}

// registered judges a feature of a registry, and remembers those of no known source.
func (d *Devcontainer) registered(o Options) func(id string) (demand.Outcome, string, string) {
	return func(id string) (demand.Outcome, string, string) {
		ref, err := features.ParseRef(id)
		if err != nil {
			return demand.Refused, err.Error(), ""
		}
		if !ref.Among(o.Sources) {
			d.Unknown = append(d.Unknown, ref)
			return demand.Refused, "its source " + ref.Source() + " is none that you named",
				"cloister devcontainer trust asks at a terminal; or config.yaml: devcontainer: {features: [\"" +
					ref.Source() + "/*\"]}"
		}
		digest, pinned := d.lock.Digest(id)
		if !pinned {
			return demand.Changed, "it is pinned to its digest of now when you agree", "cloister devcontainer trust"
		}
		return demand.Honoured, demand.InstalledHere + "; pinned to " + digest[:min(19, len(digest))], ""
	}
}

// part is a feature that was found, with the judgement of what it asks for.
type part struct {
	features.Feature
	judged demand.Result
}

// parts are the features that are here, with all that they depend on, and those that are
// not. Refused are findings about what they depend on.
func (d *Devcontainer) parts(o Options) (list []part, absent []Absent, refused []demand.Finding, err error) {
	wanted, _ := d.Config["features"].(map[string]any)
	wanted = maps.Clone(wanted)
	seen := map[string]bool{}
	size := 0
	for queue := slices.Sorted(maps.Keys(wanted)); len(queue) > 0; queue = queue[1:] {
		id := queue[0]
		if seen[id] {
			continue
		}
		if seen[id] = true; len(seen) > mostFeatures {
			return nil, nil, nil, fmt.Errorf("the features of %s need more than %d", d.File, mostFeatures)
		}
		p := part{Feature: features.Feature{ID: id, Options: wanted[id]}}
		if p.Files, err = d.filesOf(o, id); errors.Is(err, fs.ErrNotExist) {
			digest, _ := d.lock.Digest(id)
			absent = append(absent, Absent{id, digest})
			continue
		}
		for _, f := range p.Files {
			size += len(f.Text)
		}
		if err == nil && size > mostUnpacked {
			err = fmt.Errorf("the features of %s are more than %d MiB", d.File, mostUnpacked>>20)
		}
		if err == nil {
			err = d.judgePart(o, &p)
		}
		if err != nil {
			return nil, nil, nil, err
		}
		list = append(list, p)
		for _, need := range slices.Sorted(maps.Keys(p.Needs())) {
			if f := d.need(o, id, need); f.Outcome == demand.Refused {
				refused = append(refused, f)
				continue
			}
			if _, named := wanted[need]; !named {
				wanted[need] = p.Needs()[need]
			}
			queue = append(queue, need)
		}
	}
	return list, absent, refused, nil
}

// need judges that one feature depends on another.
func (d *Devcontainer) need(o Options, id, need string) demand.Finding {
	f := demand.Finding{Key: "dependsOn." + need, File: id + "/devcontainer-feature.json", Outcome: demand.Honoured}
	local := strings.HasPrefix(need, "./")
	switch why := demand.FeatureID(need); {
	case why != "":
		f.Outcome, f.Reason = demand.Refused, why
	case local && !strings.HasPrefix(id, "./"):
		f.Outcome, f.Reason = demand.Refused, "a feature of a registry needs none of the project's folders"
	case !local:
		f.Outcome, f.Reason, f.Hint = d.registered(o)(need)
	}
	return f
}

// filesOf are the files of a feature, of the devcontainer's own folder or of a registry.
// The error is of fs.ErrNotExist for one that is not here.
func (d *Devcontainer) filesOf(o Options, id string) ([]features.File, error) {
	if !strings.HasPrefix(id, "./") {
		digest, pinned := d.lock.Digest(id)
		if !pinned {
			return nil, fs.ErrNotExist
		}
		files, err := o.Features.Get(digest)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("feature %s: %w", id, err)
		}
		return files, err
	}
	at, err := relative(d.dir(), id)
	if err != nil {
		return nil, fmt.Errorf("feature %s: %w", id, err)
	}
	var out []features.File
	for name, one := range d.files.all {
		if rel, ok := strings.CutPrefix(name, at+"/"); ok && one.link == "" {
			out = append(out, features.File{Name: rel, Text: one.text, Executable: one.mode&0o111 != 0})
		}
	}
	slices.SortFunc(out, func(a, b features.File) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// judgePart reads what a feature says of itself, and judges what it asks for.
func (d *Devcontainer) judgePart(o Options, p *part) error {
	name := p.ID + "/devcontainer-feature.json"
	text, ok := p.Find("devcontainer-feature.json")
	if !ok {
		return fmt.Errorf("feature %s has no devcontainer-feature.json", p.ID)
	}
	v, err := jsonc.Parse(name, text)
	if err != nil {
		return err
	}
	if p.judged, err = demand.Judge(d.input(o, demand.Feature, name, v)); err != nil {
		return err
	}
	p.Declared, _ = v.Any().(map[string]any)
	p.Env = map[string]string{}
	env, _ := p.judged.Config["containerEnv"].(map[string]any)
	for name, value := range env {
		p.Env[name], _ = value.(string)
	}
	return nil
}

// pullRegistered looks at the features of registries: those that are here are judged, and
// the others are known by name.
func (d *Devcontainer) pullRegistered(o Options) error {
	list, absent, refused, err := d.parts(o)
	if err != nil {
		return err
	}
	d.Absent = absent
	for _, p := range list {
		if !strings.HasPrefix(p.ID, "./") {
			d.Findings = append(d.Findings, p.judged.Findings...)
			d.locals = append(d.locals, metadata.OfFeature(p.ID, p.judged.Config))
		}
	}
	d.Findings = append(d.Findings, refused...)
	return nil
}

// Features are those of a devcontainer with all that they depend on, in the order in
// which they are installed, and what of each stays after it was judged.
func (d *Devcontainer) Features(o Options) ([]features.Feature, []metadata.Entry, error) {
	parts, absent, refused, err := d.parts(o)
	switch {
	case err != nil:
		return nil, nil, err
	case len(refused) > 0:
		return nil, nil, fmt.Errorf("%s: %s: %s", refused[0].File, refused[0].Key, refused[0].Reason)
	case len(absent) > 0:
		return nil, nil, fmt.Errorf("the feature %s was not fetched", absent[0].ID)
	}
	var list []features.Feature
	entries := map[string]metadata.Entry{}
	for _, p := range parts {
		list = append(list, p.Feature)
		entries[p.ID] = metadata.OfFeature(p.ID, p.judged.Config)
	}
	var override []string
	first, _ := d.Config["overrideFeatureInstallOrder"].([]any)
	for _, id := range first {
		override = append(override, fmt.Sprint(id))
	}
	if list, err = features.Order(list, override); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", d.File, err)
	}
	var ordered []metadata.Entry
	for _, f := range list {
		ordered = append(ordered, entries[f.ID])
	}
	return list, ordered, nil
}

// Unpinned reports whether a feature has no digest yet: what it is would be decided by a
// registry, after the person agreed.
func (d *Devcontainer) Unpinned() bool {
	return slices.ContainsFunc(d.Absent, func(a Absent) bool { return a.Digest == "" })
}

// Pin writes to the lock file what features are pinned to. What else it says stays.
func (d *Devcontainer) Pin(more features.Lock) error {
	name := d.lockFile()
	text, err := features.With(d.files.all[name].text, more)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	root, err := os.OpenRoot(d.project)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer root.Close()
	at := root
	for dir := range strings.SplitSeq(d.dir(), "/") {
		if dir == "." {
			continue
		}
		below, err := folderIn(at, dir)
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		defer below.Close()
		at = below
	}
	return replaceIn(at, path.Base(name), text)
}

// replaceIn puts a file in the place of one of that name, whole.
func replaceIn(at *os.Root, name string, text []byte) error {
	const fresh = ".cloister-lock-new"
	_ = at.Remove(fresh) // of one that was ended in between
	f, err := at.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = at.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), at.Remove(fresh))
	}
	return nil
}
