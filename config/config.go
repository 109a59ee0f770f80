package config

import (
	"time"

	"cloister/internal/source"
)

// Config is everything a person can set, with defaults filled in.
type Config struct {
	Version    int        `json:"version" jsonschema:"Version of this file's format. Only 1 exists."`
	Defaults   Defaults   `json:"defaults" jsonschema:"What run does where no flag says otherwise."`
	Image      string     `json:"image" jsonschema:"The image that a cloister's system is: a name, an ID, or an archive or OCI layout by its whole path. Empty for the host's own system."`
	Proxy      Proxy      `json:"proxy" jsonschema:"Which destinations exist for a cloister."`
	Secrets    []Secret   `json:"secrets" jsonschema:"Where secrets of the vault may go: a cloister gets a placeholder of each, which is swapped at the border."`
	Logins     []string   `json:"logins" jsonschema:"Logins that cloisters get as placeholders: github, claude, codex. cloister secret login NAME gets one."`
	MCP        MCP        `json:"mcp" jsonschema:"MCP servers, and what of them may be used."`
	Hostexec   Hostexec   `json:"hostexec" jsonschema:"Commands that may run on the host. Deny wins, then manual_approve, then auto_approve; what no rule names is denied."`
	Filesystem Filesystem `json:"filesystem" jsonschema:"What of the host is visible inside."`
	Resources  Resources  `json:"resources" jsonschema:"What one cloister may use."`
	State      State      `json:"state" jsonschema:"How much disk overlay workspaces may take."`
	Audit      Audit      `json:"audit" jsonschema:"Where cloister audit anchor stores the head of the record."`

	Notify       Notify       `json:"notify" jsonschema:"Who is notified of questions besides the screens of Cloister."`
	Devcontainer Devcontainer `json:"devcontainer" jsonschema:"What devcontainers may be made of."`
	// Agents are by their names.
	Agents map[string]Agent `json:"agents" jsonschema:"What agents get besides what they need, by their names."`

	places map[string]source.Position
}

// Defaults are the values of flags that were not typed.
type Defaults struct {
	Isolation Isolation `json:"isolation" jsonschema:"How the enclosure is built."`
	Agent     string    `json:"agent" jsonschema:"What start runs: an agent that cloister setup knows, such as claude, or the name of another program."`
	Mode      Mode      `json:"mode" jsonschema:"Whether policy is enforced, or only watched."`
	Workspace Workspace `json:"workspace" jsonschema:"How the project appears inside."`
	// Devcontainer is empty where nobody said anything, which is as DevcontainerNone.
	Devcontainer string `json:"devcontainer" jsonschema:"auto: the environment of the project's devcontainer, where it has one. none, or the path or name of one of the project's devcontainers."`
}

// Proxy says which destinations are allowed, asked about or denied.
type Proxy struct {
	Unlisted        Unlisted          `json:"unlisted_domain_behavior" jsonschema:"What happens to a name that no rule names; an address that none names is denied."`
	ApprovalTimeout Duration          `json:"approval_timeout" jsonschema:"How long an ask waits for a person. With nobody watching it is refused at once."`
	Presets         []string          `json:"presets" jsonschema:"Built-in lists of allowed destinations."`
	Allow           []Rule            `json:"allow" jsonschema:"Allowed destinations."`
	Ask             []Rule            `json:"ask" jsonschema:"Destinations that a person decides about."`
	Deny            []Rule            `json:"deny" jsonschema:"Denied destinations. A deny wins over every allow."`
	Rewrite         []Rewrite         `json:"rewrite" jsonschema:"Headers that allowed requests get or lose on their way. It allows nothing."`
	Hosts           map[string]string `json:"hosts" jsonschema:"Name to address:port that the guardian dials for that name. The only way to a private or loopback address."`
	UpstreamCA      []string          `json:"upstream_ca" jsonschema:"PEM files of further certificate authorities to trust."`
	RateLimit       RateLimit         `json:"rate_limit" jsonschema:"What one session may do in a time."`
	MaxRequestBytes Size              `json:"max_request_bytes" jsonschema:"What the body of one request may hold, such as 100MiB, where requests are read."`
	UploadLimit     UploadLimit       `json:"upload_limit" jsonschema:"How many bytes one session may send."`
}

// Rule names one set of destinations. After reading, exactly one of Domain and
// CIDR is set.
type Rule struct {
	Domain string `json:"domain" jsonschema:"A host name, an address, or *.NAME for any depth below NAME."`
	// Pattern is the original Cloister's word for Domain; reading moves it there.
	Pattern string   `json:"pattern" jsonschema:"The same as domain, as the original Cloister wrote it."`
	CIDR    string   `json:"cidr" jsonschema:"A range of addresses."`
	Ports   []uint16 `json:"ports" jsonschema:"Ports, 443 and 80 unless said."`
	// What follows makes it a rule about requests: connections are intercepted.
	Methods []string          `json:"methods" jsonschema:"Methods of requests, such as GET and HEAD."`
	Paths   []string          `json:"paths" jsonschema:"Paths of requests. * is any text of one segment, ** any segments: /repos/acme/**."`
	Headers map[string]string `json:"headers" jsonschema:"Headers that a request must have. * in a value is any text."`
	Query   map[string]string `json:"query" jsonschema:"Keys that the query must have. * in a value is any text."`
	// Objects is the interface of a store: the rule speaks of objects alone.
	Objects Objects `json:"objects" jsonschema:"s3 or gcs: requests that read and write objects of a bucket, and nothing that sets who may use it or where it is copied to."`
	Bytes   Size    `json:"bytes" jsonschema:"What the body of an allowed request may hold at most, such as 10MiB."`
	// What follows makes it a rule about logins by another protocol.
	Protocol  Protocol `json:"protocol" jsonschema:"A protocol other than HTTP, whose logins the rule speaks of. Its port is the protocol's own unless said."`
	Users     []string `json:"users" jsonschema:"Names of users. * is any text."`
	Databases []string `json:"databases" jsonschema:"Names of databases. * is any text."`
	// Of protocol: ssh.
	Repositories []string        `json:"repositories" jsonschema:"Of ssh: the repositories of git that may be reached, as globs: acme/**; with a slash before it, from the root alone."`
	Git          []string        `json:"git" jsonschema:"Of ssh: fetch, push; both unless said."`
	Commands     []string        `json:"commands" jsonschema:"Of ssh: command lines that may run; * is any text of one plain word or more. shell is a login, subsystem sftp is sftp."`
	Use          Use             `json:"use" jsonschema:"Of ssh with an identity: allow, or ask a person each time that it signs a login."`
	Identity     string          `json:"identity" jsonschema:"Of ssh: what logs in, outside: agent, agent:KEY (a fingerprint or comment), or the path of a private key or of an agent's socket."`
	HostKeys     []string        `json:"host_keys" jsonschema:"Of ssh: the server's keys (ssh-ed25519 AAAA...), instead of those in your known_hosts."`
	TLS          TLS             `json:"tls" jsonschema:"inspect, which is the default: TLS ends at the guardian, and requests are judged. tunnel: it is passed on unread, for client certificates and pinned keys."`
	Place        source.Position `json:"-"`
}

// RateLimit bounds one session. Zero means no bound.
type RateLimit struct {
	RequestsPerMinute  int `json:"requests_per_minute" jsonschema:"Requests in any minute; a connection whose requests are not read counts as one."`
	ConcurrentRequests int `json:"concurrent_requests" jsonschema:"Requests under way at once."`
	NamesPerMinute     int `json:"names_per_minute" jsonschema:"Names in any minute that were not named before, below one parent (the last two labels): they could carry data."`
}

// UploadLimit bounds one session. Zero means no bound.
type UploadLimit struct {
	Session Size `json:"session" jsonschema:"Bytes up in all, such as 1GiB."`
	Host    Size `json:"host" jsonschema:"Bytes up to one host."`
}

// Rewrite changes the headers of allowed requests to one set of destinations.
type Rewrite struct {
	Domain  string            `json:"domain" jsonschema:"A host name, an address, or *.NAME for any depth below NAME."`
	Ports   []uint16          `json:"ports" jsonschema:"Ports, 443 and 80 unless said."`
	Methods []string          `json:"methods" jsonschema:"Methods of requests, such as GET and HEAD."`
	Paths   []string          `json:"paths" jsonschema:"Paths of requests. * is any text of one segment, ** any segments: /repos/acme/**."`
	Headers map[string]string `json:"headers" jsonschema:"Headers that a request must have. * in a value is any text."`
	Query   map[string]string `json:"query" jsonschema:"Keys that the query must have. * in a value is any text."`
	Set     map[string]string `json:"set" jsonschema:"Headers with the values that they get."`
	Remove  []string          `json:"remove" jsonschema:"Headers that are taken away."`
	Place   source.Position   `json:"-"`
}

// Rule is the part that says which requests are meant.
func (w Rewrite) Rule() Rule {
	return Rule{Domain: w.Domain, Ports: w.Ports, Methods: w.Methods, Paths: w.Paths, Headers: w.Headers, Query: w.Query,
		Place: w.Place}
}

// Hostexec says which commands may run on the host.
type Hostexec struct {
	AutoApprove   []CommandRule `json:"auto_approve" jsonschema:"Commands that run without a question."`
	ManualApprove []CommandRule `json:"manual_approve" jsonschema:"Commands that a person is asked about."`
	Deny          []CommandRule `json:"deny" jsonschema:"Commands that never run."`
	Shims         []string      `json:"shims" jsonschema:"Programs that inside stand for hostexec PROGRAM; git: the remotes that rules name go by way of the guardian."`
	Limits        HostLimits    `json:"limits" jsonschema:"What one command may use, with everything that it starts."`
}

// HostLimits bound one command on the host. Zero bounds nothing, but for Memory.
type HostLimits struct {
	Time   Duration `json:"time" jsonschema:"How long it may run."`
	CPU    Duration `json:"cpu_time" jsonschema:"How long it may use processors, those of all its processes added up."`
	Memory Size     `json:"memory" jsonschema:"Memory, such as 8GiB; three quarters of the machine's unless said. Needs a control group (cloister doctor)."`
	PIDs   int64    `json:"pids" jsonschema:"Processes and threads. Needs a control group."`
}

// CommandRule matches a command: by a regular expression, or by a program and
// what it may be given.
type CommandRule struct {
	Pattern string          `json:"pattern" jsonschema:"A regular expression for the whole command line, from ^ to $."`
	Program string          `json:"program" jsonschema:"A program's name, or its whole path."`
	Args    []string        `json:"args" jsonschema:"Its words: as they are, or <path>, <ref>, <package>, <any>; a last ... repeats the one before."`
	Flags   []string        `json:"flags" jsonschema:"The flags that it may have, such as -v, --name, --name=<path>, or '--name <path>' in two words. Another one asks."`
	Place   source.Position `json:"-"`
}

// Any reports whether a rule could let a command run.
func (h Hostexec) Any() bool { return len(h.AutoApprove)+len(h.ManualApprove) > 0 }

// Filesystem says what of the host is visible inside, as the person wrote it:
// a leading ~ stands for the person's home and is expanded by the reader.
type Filesystem struct {
	Expose  []string `json:"expose" jsonschema:"Host paths to show, PATH[:ro|:rw], read-only unless said."`
	Refs    []string `json:"refs" jsonschema:"Folders to show read-only at /refs/NAME."`
	Protect []string `json:"protect" jsonschema:"Further paths of the project that are read-only inside."`
	Hide    []string `json:"hide" jsonschema:"Paths of the project that look empty inside."`
}

// Resources bound one cloister. Zero means no limit was asked for.
type Resources struct {
	Memory Size    `json:"memory" jsonschema:"Memory, such as 8GiB."`
	CPUs   float64 `json:"cpus" jsonschema:"Processors, such as 4 or 0.5."`
	PIDs   int64   `json:"pids" jsonschema:"Processes and threads."`
}

// State bounds what overlay workspaces take of the disk, and to which keys exported checkpoints
// are sealed. Zero bounds nothing.
type State struct {
	Quota        Size `json:"quota" jsonschema:"What all overlay workspaces may take, such as 10GiB."`
	ProjectQuota Size `json:"project_quota" jsonschema:"What those of one project may take."`
	// Recipients are age's: what is exported is sealed to them.
	Recipients []string `json:"recipients" jsonschema:"Recipients of age, to which exports are sealed."`
}

// Notify says who is notified of each question, such as a chat or a phone. It answers none.
type Notify struct {
	Command []string `json:"command" jsonschema:"A program that gets each question, and each end of one, as a line of JSON."`
	Webhook string   `json:"webhook" jsonschema:"An https address that gets each question as the JSON body of a POST."`
}

// Audit says where the head of the record is stored outside it.
type Audit struct {
	AnchorFile    string   `json:"anchor_file" jsonschema:"A file that anchors are appended to and verified against: best on another machine's disk or where only appending is allowed."`
	AnchorCommand []string `json:"anchor_command" jsonschema:"A program with its arguments that gets each anchor, one line of JSON, as its input."`
}

// Devcontainer says what devcontainers may be made of.
type Devcontainer struct {
	Features []string `json:"features" jsonschema:"Where features of registries may be from: REGISTRY/PATH of one, or REGISTRY/PATH/* for all below. Of other sources, cloister devcontainer trust asks at a terminal."`
}

// Agent is what a person adds to what an agent needs.
type Agent struct {
	Args []string          `json:"args" jsonschema:"Arguments before those that are typed."`
	Env  map[string]string `json:"env" jsonschema:"Variables inside."`
}

// Isolation is a way of building the enclosure.
type Isolation string

// Mode says what a verdict does.
type Mode string

// Workspace says how the project appears inside.
type Workspace string

// TLS says what becomes of the encryption of an allowed connection.
type TLS string

// Objects is the interface of a store of objects.
type Objects string

// Protocol is one other than HTTP that rules can speak of.
type Protocol string

// Unlisted is what happens to a destination that no rule names.
type Unlisted string

// The words that the keys accept.
const (
	IsolationAuto   Isolation = "auto"
	IsolationNative Isolation = "native"
	IsolationUser   Isolation = "user"

	ModeEnforce Mode = "enforce"
	ModeShadow  Mode = "shadow"
	ModeRecord  Mode = "record"

	WorkspaceLive    Workspace = "live"
	WorkspaceOverlay Workspace = "overlay"
	WorkspaceScratch Workspace = "scratch"
	WorkspaceNone    Workspace = "none"

	// TLSInspect ends it at the guardian, which is the default.
	TLSInspect TLS = "inspect"
	// TLSTunnel passes it on as it is.
	TLSTunnel TLS = "tunnel"
	// ObjectsS3 and ObjectsGCS are the interfaces of stores of objects.
	ObjectsS3  Objects = "s3"
	ObjectsGCS Objects = "gcs"

	// DevcontainerAuto is the devcontainer that a project has, DevcontainerNone is none.
	DevcontainerAuto = "auto"
	DevcontainerNone = "none"

	UnlistedAsk  Unlisted = "ask"
	UnlistedDeny Unlisted = "deny"
)

func (Isolation) words() []string {
	return append([]string{string(IsolationAuto)}, Levels()...)
}

// Watches reports whether the level has a filter report what programs open and execute: where
// the host's own kernel runs them, and no engine stands between.
func (i Isolation) Watches() bool { return i == IsolationNative || i == IsolationUser }

func (Mode) words() []string {
	return []string{string(ModeEnforce), string(ModeShadow), string(ModeRecord)}
}
func (Protocol) words() []string { return []string{"postgres", "ssh"} }
func (TLS) words() []string      { return []string{string(TLSInspect), string(TLSTunnel)} }
func (Objects) words() []string  { return []string{string(ObjectsS3), string(ObjectsGCS)} }
func (Workspace) words() []string {
	return []string{string(WorkspaceLive), string(WorkspaceOverlay), string(WorkspaceScratch), string(WorkspaceNone)}
}
func (Unlisted) words() []string {
	return []string{string(UnlistedAsk), string(UnlistedDeny), "request_approval", "reject"}
}

// older translates the words of the original Cloister.
func (u Unlisted) older() Unlisted {
	switch u {
	case "request_approval":
		return UnlistedAsk
	case "reject":
		return UnlistedDeny
	default:
		return u
	}
}

// Default is the configuration of someone who wrote none.
func Default() *Config {
	return &Config{
		Version:  1,
		Defaults: Defaults{Isolation: IsolationAuto, Agent: "claude", Mode: ModeEnforce, Workspace: WorkspaceLive},
		Proxy: Proxy{
			Unlisted:        UnlistedAsk,
			ApprovalTimeout: Duration(time.Minute),
			Presets:         []string{"ai-apis", "package-registries", "source-hosts", "docs"},
			RateLimit:       RateLimit{ConcurrentRequests: 1000, NamesPerMinute: 100},
		},
		Hostexec:  Hostexec{Limits: HostLimits{Time: Duration(30 * time.Minute), CPU: Duration(2 * time.Hour), PIDs: 4096}},
		Resources: Resources{PIDs: 4096},
		// Those of the specification's own authors.
		Devcontainer: Devcontainer{Features: []string{"ghcr.io/devcontainers/features/*"}},
	}
}

// Place tells where a key was written, such as proxy.allow[0].domain. The zero
// Place means that no one wrote it and the default holds.
func (c *Config) Place(key string) source.Position { return c.places[key] }
