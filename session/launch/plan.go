package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/agent"
	"cloister/api"
	"cloister/config"
	"cloister/host/resolve"
	"cloister/internal/hint"
	"cloister/internal/shellword"
	"cloister/internal/source"
	"cloister/internal/xdg"
	"cloister/policy"
	"cloister/sandbox"
	"cloister/sandbox/judge"
	"cloister/session/globs"
	"cloister/workspace"
	"cloister/workspace/hostgit"
	"cloister/workspace/protect"
)

// Facts are what an order meets on this machine.
type Facts struct {
	Config *config.Config     // with the project's files over it
	Cedar  []policy.CedarFile // of the configuration
	Outer  []protect.Outer    // what the projects around the project say of its files
	Root   sandbox.Root       // of the image, empty for the host's own

	Host *resolve.Resolver
	Dirs xdg.Dirs
	// Locks is where sessions of one project find each other, and KeepOut are
	// Cloister's own folders, which no cloister sees.
	Locks   string
	KeepOut []string
	// Home is the person's home as the environment has it, RealHome the same without
	// symbolic links.
	Home, RealHome string
	UID            int
	Env            map[string]string
	// Given are variables of the inside that the agent's own and those that were typed
	// replace, as -e would give them.
	Given []string
	// Project is the top of the project's files; the session may write it.
	Project string
	// Isolation is the name of the driver that was chosen.
	Isolation string
	// Elsewhere says that its boxes are on another host.
	Elsewhere bool
	// Git reads the host's git configuration for a repository.
	Git func(hostgit.Folders) hostgit.Configuration
}

// A Plan is everything that a cloister's start depends on, resolved. It is not changed
// after [Resolve] has made it.
type Plan struct {
	User    sandbox.User
	Limits  sandbox.Limits
	View    workspace.Options
	Env     []string
	Publish []api.Published
	Cedar   []api.CedarFile
	Closed  []string // the rules of statements that the view keeps, or the kernel
	found   globs.Found
	reports bool // the mode closes nothing, and has reported what is forbidden
	// Judge keeps Judged; nil where the kernel does not judge. The shim closes it.
	Judge  *judge.Kernel
	Judged []sandbox.Judged
	// Permits are the lists of what alone may be used.
	Permits sandbox.Permits
	// Watched is what is reported of files and programs, where no kernel judges them.
	Watched sandbox.Watched
	CAFile  string // the host's authorities, where the payload's user may read them
	CA      []byte // the text of further authorities
	// Notices are for the person: what a file of settings names and is not there.
	Notices []string
}

// Resolve makes the plan of an order that was checked and filled. It reads the files
// that the order names, and changes nothing.
func Resolve(o Order, f Facts) (Plan, error) {
	p := Plan{User: UserOf(f.UID, f.Env["USER"])}
	if o.User != "" {
		p.User.Name = o.User
	}
	given := f.Given
	if o.Agent != "" {
		given = slices.Concat(given, AgentVariables(o.Agent, f.Config))
	}
	o.Env = slices.Concat(given, o.Env) // what is typed is the last word
	var err error
	if p.Limits, err = o.limits(f.Config); err != nil {
		return p, err
	}
	if err := p.view(o, f); err != nil {
		return p, err
	}
	if p.Env, err = o.Variables(f.Env); err != nil {
		return p, err
	}
	if p.Publish, err = o.published(); err != nil {
		return p, err
	}
	if err := p.policies(o, f); err != nil {
		return p, err
	}
	p.Cedar = append(p.Cedar, o.Cedar...)
	if err := p.close(o, f); err != nil {
		return p, err
	}
	a, err := Authorities(f, p.own(f)...)
	p.CAFile, p.CA, p.Notices = a.File, a.More, append(p.Notices, a.Notices...)
	return p, err
}

// Request is what the guardian is asked for. What names the project and the driver is
// the caller's to add.
func (p Plan) Request(o Order, argv []string) api.SessionRequest {
	return api.SessionRequest{
		Name: o.Name, Agent: o.Agent, Mode: o.Mode, Workspace: o.Workspace, Command: argv,
		Allow: o.Allow, Deny: o.Deny, Network: !o.NoNetwork, Accepted: o.Accepted(),
		Cedar: p.Cedar, Narrow: o.Narrow, Closed: p.Closed, Publish: p.Publish, Writable: p.writable(),
		Reports: p.reports,
	}
}

// writable are the host folders besides the project that a person shows so.
func (p Plan) writable() []string {
	var out []string
	for _, e := range p.View.Expose {
		if e.Access == sandbox.ReadWrite {
			out = append(out, e.Path)
		}
	}
	return out
}

// own are the folders of the host that the session may write.
func (p Plan) own(f Facts) []string {
	if f.Project == "" || p.View.None {
		return p.writable()
	}
	return append(p.writable(), f.Project)
}

// UserOf is the user of the command inside: this one by the same number, never root.
func UserOf(uid int, name string) sandbox.User {
	if uid == 0 {
		return sandbox.User{ID: 1000, Name: "agent"}
	}
	ok := name != "" && name != "root" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
	if !ok {
		name = "agent"
	}
	return sandbox.User{ID: uid, Name: name}
}

// AgentVariables are the variables of an agent, its own and those that a person
// configured, as -e would give them.
func AgentVariables(name string, cfg *config.Config) []string {
	own := agent.Find(name).With(nil, cfg.Agents[name].Env).Env
	env := make([]string, 0, len(own))
	for _, key := range slices.Sorted(maps.Keys(own)) {
		env = append(env, key+"="+own[key])
	}
	return env
}

func (o *Order) limits(cfg *config.Config) (sandbox.Limits, error) {
	l := sandbox.Limits{Memory: int64(cfg.Resources.Memory), CPUs: cfg.Resources.CPUs, Pids: cfg.Resources.PIDs}
	if o.Memory != "" {
		size, err := config.ParseSize(o.Memory)
		if err != nil {
			return l, hint.Usage("such as 512MiB or 8GiB", "%s: --memory: %v", o.Verb, err)
		}
		l.Memory = int64(size)
	}
	if o.CPUs > 0 || o.AllCPUs {
		l.CPUs = o.CPUs
	}
	if o.PIDs > 0 {
		l.Pids = o.PIDs
	}
	return l, nil
}

// view resolves what of the host is seen inside.
func (p *Plan) view(o Order, f Facts) error {
	p.View = workspace.Options{
		Host: f.Host, Home: f.RealHome, Path: f.Env["PATH"], Data: f.Dirs.Data, Locks: f.Locks, KeepOut: f.KeepOut,
		None: o.Workspace == "none" || o.Workspace == "git", Overlay: o.Workspace == "overlay" || o.Workspace == "scratch",
		Protect: f.Config.Filesystem.Protect, Hide: f.Config.Filesystem.Hide,
		Unprotected: slices.Contains(o.Accepted(), protect.ResidueUnprotected),
		Sources:     f.Git, Outer: f.Outer, ReadOnly: o.ReadOnly, Elsewhere: f.Elsewhere,
	}
	if o.Image != "" {
		p.View.Path = "" // toolchains are the image's
	}
	configured := f.Config.Filesystem
	for i, text := range slices.Concat(configured.Expose, o.Expose) {
		if err := p.expose(o, f, text, i >= len(configured.Expose)); err != nil {
			return err
		}
	}
	for i, text := range slices.Concat(configured.Refs, o.Refs) {
		if err := p.ref(o, f, text, i >= len(configured.Refs)); err != nil {
			return err
		}
	}
	p.View.Hide = slices.Concat(p.View.Hide, o.Hide)
	if len(p.View.Hide) > 0 && o.Workspace == string(config.WorkspaceGit) {
		p.Notices = append(p.Notices, "cloister: filesystem.hide: a clone has what is committed, also of what is hidden")
	}
	p.View.Protect = slices.Concat(p.View.Protect, o.Protect)
	return nil
}

// expose shows PATH[:ro|:rw], which was typed or stands in a file of settings.
func (p *Plan) expose(o Order, f Facts, text string, typed bool) error {
	e, err := config.ParseExpose(text)
	if err != nil {
		return hint.Usage("", "%s: %v", o.Verb, err)
	}
	path, err := Tilde(e.Path, f.Home)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("expose %s: %w", e.Path, err)
	}
	if _, err := os.Stat(path); err != nil && typed {
		return hint.Usage("", "%s: --expose: %v", o.Verb, err)
	} else if p.absent(err, "expose", text) {
		return nil
	}
	access := sandbox.ReadOnly
	if e.Writable {
		access = sandbox.ReadWrite
	}
	p.View.Expose = append(p.View.Expose, workspace.Expose{Path: path, Access: access, Typed: typed})
	return nil
}

// ref shows a folder at /refs.
func (p *Plan) ref(o Order, f Facts, text string, typed bool) error {
	path, err := Tilde(text, f.Home)
	if err != nil {
		return err
	}
	at, err := os.Stat(path)
	switch {
	case err != nil && typed:
		return hint.Usage("", "%s: --ref: %v", o.Verb, err)
	case p.absent(err, "refs", text):
		return nil
	case err == nil && !at.IsDir() && typed:
		return hint.Usage("one file, where it lies on the host: --expose "+shellword.Line(text), "%s: --ref: %s is no folder",
			o.Verb, text)
	case err == nil && !at.IsDir():
		p.Notices = append(p.Notices, fmt.Sprintf("cloister: filesystem.refs: %s is no folder, and is not shown; "+
			"filesystem.expose shows a file", text))
		return nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("show %s at /refs: %w", text, err)
	}
	p.View.Refs = append(p.View.Refs, path)
	return nil
}

// absent notes a path in a file of settings, which are for several machines and
// projects: what is not there is not shown.
func (p *Plan) absent(err error, key, path string) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	p.Notices = append(p.Notices, fmt.Sprintf("cloister: filesystem.%s: %s is not there", key, path))
	return true
}

// Tilde expands a leading ~ to the person's home.
func Tilde(path, home string) (string, error) {
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path, nil
	}
	if home == "" {
		return "", fmt.Errorf("expand %s: HOME is not set", path)
	}
	return filepath.Join(home, strings.TrimPrefix(path, "~")), nil
}

// policies reads the Cedar files that were typed. Where one leads no other user may have
// chosen, and the other users that could have written one are named: it decides what this session may do.
func (p *Plan) policies(o Order, f Facts) error {
	for _, name := range o.Policy {
		full, err := filepath.Abs(name)
		if err != nil {
			return hint.Usage("", "%s: --policy: %v", o.Verb, err)
		}
		found, err := f.Host.Find(full)
		if err != nil {
			return hint.Usage("", "%s: --policy: %v", o.Verb, err)
		}
		if err := found.Chosen(); err != nil {
			return fmt.Errorf("%s: --policy %s: %w", o.Verb, name, err)
		}
		if found.Place != "" {
			p.Notices = append(p.Notices, fmt.Sprintf("cloister: --policy %s: a cloister could write %s: look at what it says",
				name, found.Place))
		}
	}
	var err error
	p.Cedar, err = CedarFiles(o.Policy, o.Verb+": --policy")
	return err
}

// CedarFiles reads Cedar files that a person typed; what names the flag in errors.
func CedarFiles(names []string, what string) ([]api.CedarFile, error) {
	var out []api.CedarFile
	for _, name := range names {
		text, err := ReadMost(name, config.MaxFile)
		if err != nil {
			return nil, hint.Usage("", "%s: %v", what, err)
		}
		out = append(out, api.CedarFile{Name: name, Text: string(text)})
	}
	return out, nil
}

// ReadMost reads a file that a person typed, which may be a pipe or a device that never ends.
func ReadMost(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return text, err
}

// bundles is where distributions keep the authorities that they trust.
func bundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/ssl/cert.pem",
	}
}

// Trust is which certificate authorities programs inside trust.
type Trust struct {
	File    string // of the host's, which the payload's user may read
	More    []byte // the text of others
	Notices []string
}

// Text is all of them.
func (t Trust) Text() ([]byte, error) {
	if t.File == "" {
		return t.More, nil
	}
	text, err := os.ReadFile(t.File)
	if err != nil {
		return nil, fmt.Errorf("read certificate authorities: %w", err)
	}
	return append(append(text, '\n'), t.More...), nil
}

// Authorities finds them. A file that a payload or another user could have written is none:
// whoever writes it chooses which authorities Cloister believes, and what of the host is shown in its place.
// own are the folders that the session may write.
func Authorities(f Facts, own ...string) (Trust, error) {
	var t Trust
	list := bundles()
	if named := f.Env["SSL_CERT_FILE"]; filepath.IsAbs(named) {
		_, err := f.Host.Settings(named, own...)
		if _, foreign := errors.AsType[*resolve.Foreign](err); foreign {
			t.Notices = append(t.Notices, "cloister: SSL_CERT_FILE: "+err.Error()+": the system's authorities are taken")
		} else {
			list = []string{named}
		}
	}
	for _, candidate := range list {
		fi, err := os.Stat(candidate)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// What root alone can reach, the payload's user cannot.
		if err == nil && (f.UID != 0 || slices.Contains(bundles(), candidate) && fi.Mode().Perm()&0o004 != 0) {
			t.File = candidate
			break
		}
		if err == nil {
			t.More, err = os.ReadFile(candidate)
		}
		if err != nil {
			return t, fmt.Errorf("read certificate authorities: %w", err)
		}
		break
	}
	for i, name := range f.Config.Proxy.UpstreamCA {
		path, err := Tilde(name, f.Home)
		if err != nil {
			return t, err
		}
		text, err := authority(f.Host, path, own)
		if err != nil {
			at := f.Config.Place(fmt.Sprintf("proxy.upstream_ca[%d]", i))
			return t, &source.Problem{Position: at, Msg: "proxy.upstream_ca: " + err.Error()}
		}
		t.More = append(append(t.More, '\n'), text...)
	}
	t.More = append(t.More, '\n')
	return t, nil
}

func authority(host *resolve.Resolver, path string, own []string) ([]byte, error) {
	if _, err := host.Settings(path, own...); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(text, []byte("-----BEGIN CERTIFICATE-----")) {
		err = fmt.Errorf("%s holds no certificate in PEM form", path)
	}
	return text, err
}
