package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloister/agent"
	"cloister/api"
	"cloister/git/checkout"
	"cloister/hostexec"
	"cloister/sandbox"
	"cloister/session/browsers"
	"cloister/session/javastore"
	"cloister/workspace"
)

const bundlePath = "/etc/ssl/certs/ca-certificates.crt"

// spec writes the cloister down.
func (s *Shim) spec(grant api.SessionGrant, view *workspace.View) (sandbox.Spec, error) {
	user := s.User
	user.Home = view.Home
	files, err := s.files(grant)
	if err == nil {
		err = s.conflicts(grant)
	}
	files = append(files, view.Files...)
	watched, permits := s.Watched, s.Permits
	watched.Asked = view.Asked
	permits, watched.Permits = withAsked(permits, view.Asked), withAsked(watched.Permits, view.Asked)
	return sandbox.Spec{
		ID: grant.ID, Name: grant.Name, Argv: s.argv(grant.Name), Dir: view.Dir, User: user,
		Env:  s.environment(grant, user, view),
		Root: s.Root, Binds: s.binds(view), Protect: view.Protect, Links: s.links(view),
		Files:  files,
		Limits: s.Limits, Network: s.Request.Network, Accepted: s.Request.Accepted,
		Denied: s.Denied, Peers: s.Peers, Judged: s.Judged, Permits: permits, Watched: watched, InKernel: s.inKernel(),
	}, err
}

// withAsked adds to lists what a person may allow to be executed: until then it is empty.
func withAsked(p sandbox.Permits, asked []sandbox.Asked) sandbox.Permits {
	if !p.Any() {
		return p
	}
	p.List = slices.Clip(p.List)
	for _, a := range asked {
		if a.StandIn != "" {
			p.List = append(p.List, sandbox.Permit{Path: a.Path, Read: true, Exec: true})
		}
	}
	return p
}

// inKernel reports whether the kernel's own judge keeps or tells what is asked of files and programs.
func (s *Shim) inKernel() bool {
	return s.Judge != nil && (len(s.Judged) > 0 || s.Permits.Any() || s.Watched.Any() && !s.Watched.Kept)
}

// judge has the kernel judge; nil where it does not, so that a box that wants it is refused.
func (s *Shim) judge(j *judging, tell func(sandbox.FileEvent)) sandbox.Judging {
	if s.Judge == nil {
		return nil
	}
	return j.begin(s.Judge, tell)
}

func (s *Shim) binds(view *workspace.View) []sandbox.Bind {
	binds := slices.Clip(view.Binds)
	if s.Caller != "" {
		binds = append(binds, sandbox.Bind{Source: s.Caller, Target: callerDir + "/hostexec", File: true})
	}
	return binds
}

// argv is the command, in a clone where it is to have one.
func (s *Shim) argv(name string) []string {
	if s.Caller == "" || s.Clones == "" {
		return s.Argv
	}
	return checkout.Words(callerDir, name, s.Clones, s.Argv)
}

// callerDir is where hostexec lies inside, last in PATH.
const callerDir = "/.cloister/bin"

// shimsDir is where the shims lie inside, first in PATH.
const shimsDir = "/.cloister/shims"

// links adds the name under which git finds hostexec: what git calls a helper for
// remotes of the form cloister::URL.
func (s *Shim) links(view *workspace.View) []sandbox.Link {
	links := slices.Clip(view.Links)
	for _, v := range s.Volumes {
		links = append(links, sandbox.Link{Path: v.At, Target: string(view.Home) + "/" + v.Dir})
	}
	if s.Caller != "" && s.Turns {
		links = append(links, sandbox.Link{Path: callerDir + "/" + hostexec.Turn, Target: "hostexec"})
	}
	if s.Caller != "" && (s.Commands || s.Clones != "") {
		links = append(links, sandbox.Link{Path: callerDir + "/git-remote-cloister", Target: "hostexec"})
	}
	if s.Caller != "" && s.Clones != "" {
		links = append(links, sandbox.Link{Path: callerDir + "/" + checkout.Name, Target: "hostexec"})
	}
	if s.Caller != "" && s.Commands {
		for _, name := range s.Shims {
			links = append(links, sandbox.Link{Path: sandbox.GuestPath(shimsDir + "/" + name), Target: callerDir + "/hostexec"})
		}
	}
	return links
}

func (s *Shim) files(grant api.SessionGrant) ([]sandbox.File, error) {
	more := slices.Concat(s.CA, []byte(grant.Authority))
	files := []sandbox.File{
		{Path: "/etc/gitconfig", Data: append(s.gitConfig(), gitLogins(grant.Logins)...), Mode: 0o644},
		{Path: bundlePath, From: s.CAFile, Data: more, Mode: 0o644},
	}
	if len(grant.Logins) > 0 {
		files = append(files, sandbox.File{Path: netrcPath, Data: netrc(grant.Logins), Mode: 0o644})
	}
	trust, err := browsers.Files(more)
	if err != nil {
		return nil, err
	}
	files = append(files, trust...)
	if grant.KnownHosts != "" {
		files = append(files, sandbox.File{Path: "/etc/ssh/ssh_known_hosts", Data: []byte(grant.KnownHosts), Mode: 0o644})
	}
	home := s.agentHome(grant)
	files = append(files, loginFiles(homeFiles(grant, home))...)
	system := home.System
	if s.Caller != "" && s.Commands {
		system = append(agent.Instructions(s.Shims, len(s.Remotes) > 0), system...)
	}
	if s.Caller != "" && s.Turns {
		system = append(system, agent.Turns(callerDir+"/"+hostexec.Turn)...)
	}
	files = append(files, systemFiles(system)...)
	if s.Java == "" {
		return files, nil
	}
	store, err := javastore.Host{Store: s.Java, Bundle: s.CAFile, Sums: s.Sums}.File(s.CA, []byte(grant.Authority))
	if err != nil {
		return nil, fmt.Errorf("write Java's authorities: %w", err)
	}
	return append(files, store), nil
}

// A Conflict is a variable that -e or the configuration gives, and that is to hold
// the placeholder of a secret.
type Conflict struct{ Name string }

func (e *Conflict) Error() string {
	return "the variable " + e.Name + " is given a value, and a secret is bound to it"
}

// Hints are the words of what to do.
func (e *Conflict) Hints() []string {
	return []string{"leave out -e " + e.Name + ", or the secret in config.yaml, or give the secret another env"}
}

func (s *Shim) conflicts(grant api.SessionGrant) error {
	for _, e := range s.Env {
		key, _, _ := strings.Cut(e, "=")
		if _, both := grant.Env[key]; both {
			return &Conflict{key}
		}
	}
	return nil
}

// AuthorityVariables are those by which programs find the authorities to trust.
func AuthorityVariables() []string {
	return []string{
		"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT",
		"CARGO_HTTP_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	}
}

// environment is built, never inherited.
func (s *Shim) environment(grant api.SessionGrant, user sandbox.User, view *workspace.View) []string {
	path := slices.Concat(view.Path, s.Path)
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	if s.Caller != "" {
		path = append(path, callerDir)
		if len(s.Shims) > 0 {
			path = slices.Insert(path, 0, shimsDir)
		}
	}
	known := map[string]string{
		"PATH": strings.Join(path, ":"), "HOME": string(user.Home), "USER": user.Name, "LOGNAME": user.Name,
		"SHELL": "/bin/sh", "CLOISTER": "1", "CLOISTER_NAME": grant.Name,
		"TERM": s.Term.Term, "LANG": s.Term.Lang, "TZ": s.Term.TZ,
	}
	for _, ca := range AuthorityVariables() {
		known[ca] = bundlePath
	}
	maps.DeleteFunc(known, func(_, value string) bool { return value == "" })
	for _, e := range s.Env {
		key, value, _ := strings.Cut(e, "=")
		known[key] = value // what a person names is there, also when it is empty
	}
	if _, said := known["PGCHANNELBINDING"]; grant.Postgres && !said {
		known["PGCHANNELBINDING"] = "disable"
	}
	maps.Copy(known, grant.Env)
	var out []string
	for key, value := range known {
		out = append(out, key+"="+value)
	}
	slices.Sort(out)
	return out
}

// gitConfig is all that git inside knows of the person: whose commits these
// are. It also trusts the project, whose files' owner a container may show as
// another process.
func (s *Shim) gitConfig() []byte {
	var b strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace
	if s.Author.Name != "" || s.Author.Email != "" {
		fmt.Fprintf(&b, "[user]\n\tname = \"%s\"\n\temail = \"%s\"\n", quote(s.Author.Name), quote(s.Author.Email))
	}
	fmt.Fprintf(&b, "[safe]\n\tdirectory = \"%s\"\n", quote(string(s.Project.Root)))
	for _, url := range s.Remotes {
		fmt.Fprintf(&b, "[url \"cloister::%s\"]\n\tinsteadOf = \"%s\"\n", quote(url), quote(url))
	}
	if len(s.Remotes) > 0 {
		// git has submodules fetched by allowed helpers alone (git-config(1)).
		b.WriteString("[protocol \"cloister\"]\n\tallow = always\n")
	}
	submodules := s.Submodules
	if s.View.None {
		submodules = nil // nothing of the project is inside, and its remote may hold a password
	}
	for _, m := range submodules {
		fmt.Fprintf(&b, "[submodule \"%s\"]\n\turl = \"%s\"\n",
			strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(m.Name), quote(s.byGuardian(m.URL)))
		if m.Update != "" {
			fmt.Fprintf(&b, "\tupdate = %s\n", m.Update)
		}
	}
	return []byte(b.String())
}

// byGuardian is how git inside names a folder of the host that a rule names: git clone
// looks for a folder before it obeys insteadOf.
func (s *Shim) byGuardian(url string) string {
	if slices.Contains(s.Remotes, "file://"+url) {
		return "file://" + url
	}
	return url
}
