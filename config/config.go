package config

import (
	"time"

	"cloister/internal/source"
)

// Config is everything a person can set, with defaults filled in.
type Config struct {
	// Version of this file's format. Only 1 exists.
	Version int `json:"version"`
	// What run does where no flag says otherwise.
	Defaults Defaults `json:"defaults"`
	// The image that a cloister's system is: a name, an ID, or an archive or OCI layout by its whole
	// path. Empty for the host's own system.
	Image string `json:"image"`
	// Which destinations exist for a cloister.
	Proxy Proxy `json:"proxy"`
	// Where secrets of the vault may go: a cloister gets a placeholder of each, which is swapped at
	// the border.
	Secrets []Secret `json:"secrets"`
	// Logins that cloisters get as placeholders: github, claude, codex. cloister secret login NAME
	// gets one.
	Logins []string `json:"logins"`
	// MCP servers, and what of them may be used.
	MCP MCP `json:"mcp"`
	// Commands that may run on the host. Deny wins, then manual_approve, then auto_approve; what no
	// rule names is denied.
	Hostexec Hostexec `json:"hostexec"`
	// What of the host is visible inside.
	Filesystem Filesystem `json:"filesystem"`
	// What one cloister may use.
	Resources Resources `json:"resources"`
	// How much disk overlay workspaces may take.
	State State `json:"state"`
	// Where cloister audit anchor stores the head of the record.
	Audit Audit `json:"audit"`

	// Who is notified of questions besides the screens of Cloister.
	Notify Notify `json:"notify"`
	// What devcontainers may be made of.
	Devcontainer Devcontainer `json:"devcontainer"`
	// What agents get besides what they need, by their names.
	Agents map[string]Agent `json:"agents"`

	places map[string]source.Position
}

// Defaults are the values of flags that were not typed.
type Defaults struct {
	// How the enclosure is built.
	Isolation Isolation `json:"isolation"`
	// What start runs: an agent that cloister setup knows, such as claude, or the name of another
	// program.
	Agent string `json:"agent"`
	// Whether policy is enforced, or only watched.
	Mode Mode `json:"mode"`
	// How the project appears inside.
	Workspace Workspace `json:"workspace"`
	// auto: the environment of the project's devcontainer, where it has one. none, or the path or name
	// of one of the project's devcontainers.
	//
	// Empty is as DevcontainerNone.
	Devcontainer string `json:"devcontainer"`
}

// Proxy says which destinations are allowed, asked about or denied.
type Proxy struct {
	// What happens to a name that no rule names; an address that none names is denied.
	Unlisted Unlisted `json:"unlisted_domain_behavior"`
	// How long an ask waits for a person. With nobody watching it is refused at once.
	ApprovalTimeout Duration `json:"approval_timeout"`
	// Built-in lists of allowed destinations.
	Presets []string `json:"presets"`
	// Allowed destinations.
	Allow []Rule `json:"allow"`
	// Destinations that a person decides about.
	Ask []Rule `json:"ask"`
	// Denied destinations. A deny wins over every allow.
	Deny []Rule `json:"deny"`
	// Headers that allowed requests get or lose on their way. It allows nothing.
	Rewrite []Rewrite `json:"rewrite"`
	// Name to address:port that the guardian dials for that name. The only way to a private or
	// loopback address.
	Hosts map[string]string `json:"hosts"`
	// PEM files of further certificate authorities to trust.
	UpstreamCA []string `json:"upstream_ca"`
	// What one session may do in a time.
	RateLimit RateLimit `json:"rate_limit"`
	// What the body of one request may hold, such as 100MiB, where requests are read.
	MaxRequestBytes Size `json:"max_request_bytes"`
	// How many bytes one session may send.
	UploadLimit UploadLimit `json:"upload_limit"`
}

// Rule names one set of destinations. After reading, exactly one of Domain and
// CIDR is set.
type Rule struct {
	// A host name, an address, or *.NAME for any depth below NAME.
	Domain string `json:"domain"`
	// The same as domain, as the original Cloister wrote it.
	//
	// Pattern is the original Cloister's word for Domain; reading moves it there.
	Pattern string `json:"pattern"`
	// A range of addresses.
	CIDR string `json:"cidr"`
	// Ports, 443 and 80 unless said.
	Ports []uint16 `json:"ports"`
	// Methods of requests, such as GET and HEAD.
	//
	// What follows makes it a rule about requests: connections are intercepted.
	Methods []string `json:"methods"`
	// Paths of requests. * is any text of one segment, ** any segments: /repos/acme/**.
	Paths []string `json:"paths"`
	// Headers that a request must have. * in a value is any text.
	Headers map[string]string `json:"headers"`
	// Keys that the query must have. * in a value is any text.
	Query map[string]string `json:"query"`
	// s3 or gcs: requests that read and write objects of a bucket, and nothing that sets who may use
	// it or where it is copied to.
	//
	// Objects is the interface of a store: the rule speaks of objects alone.
	Objects Objects `json:"objects"`
	// What the body of an allowed request may hold at most, such as 10MiB.
	Bytes Size `json:"bytes"`
	// A protocol other than HTTP, whose logins the rule speaks of. Its port is the protocol's own
	// unless said.
	//
	// What follows makes it a rule about logins by another protocol.
	Protocol Protocol `json:"protocol"`
	// Names of users. * is any text.
	Users []string `json:"users"`
	// Names of databases. * is any text.
	Databases []string `json:"databases"`
	// Of ssh: the repositories of git that may be reached, as globs: acme/**; with a slash before it,
	// from the root alone.
	//
	// Of protocol: ssh.
	Repositories []string `json:"repositories"`
	// Of ssh: fetch, push; both unless said.
	Git []string `json:"git"`
	// Of ssh: command lines that may run; * is any text of one plain word or more. shell is a login,
	// subsystem sftp is sftp.
	Commands []string `json:"commands"`
	// Of ssh with an identity: allow, or ask a person each time that it signs a login.
	Use Use `json:"use"`
	// Of ssh: what logs in, outside: agent, agent:KEY (a fingerprint or comment), or the path of a
	// private key or of an agent's socket.
	Identity string `json:"identity"`
	// Of ssh: the server's keys (ssh-ed25519 AAAA...), instead of those in your known_hosts.
	HostKeys []string `json:"host_keys"`
	// inspect, which is the default: TLS ends at the guardian, and requests are judged. tunnel: it is
	// passed on unread, for client certificates and pinned keys.
	TLS   TLS             `json:"tls"`
	Place source.Position `json:"-"`
}

// RateLimit bounds one session. Zero means no bound.
type RateLimit struct {
	// Requests in any minute; a connection whose requests are not read counts as one.
	RequestsPerMinute int `json:"requests_per_minute"`
	// Requests under way at once.
	ConcurrentRequests int `json:"concurrent_requests"`
	// Names in any minute that were not named before, below one parent (the last two labels): they
	// could carry data.
	NamesPerMinute int `json:"names_per_minute"`
}

// UploadLimit bounds one session. Zero means no bound.
type UploadLimit struct {
	// Bytes up in all, such as 1GiB.
	Session Size `json:"session"`
	// Bytes up to one host.
	Host Size `json:"host"`
}

// Rewrite changes the headers of allowed requests to one set of destinations.
type Rewrite struct {
	// A host name, an address, or *.NAME for any depth below NAME.
	Domain string `json:"domain"`
	// Ports, 443 and 80 unless said.
	Ports []uint16 `json:"ports"`
	// Methods of requests, such as GET and HEAD.
	Methods []string `json:"methods"`
	// Paths of requests. * is any text of one segment, ** any segments: /repos/acme/**.
	Paths []string `json:"paths"`
	// Headers that a request must have. * in a value is any text.
	Headers map[string]string `json:"headers"`
	// Keys that the query must have. * in a value is any text.
	Query map[string]string `json:"query"`
	// Headers with the values that they get.
	Set map[string]string `json:"set"`
	// Headers that are taken away.
	Remove []string        `json:"remove"`
	Place  source.Position `json:"-"`
}

// Rule is the part that says which requests are meant.
func (w Rewrite) Rule() Rule {
	return Rule{Domain: w.Domain, Ports: w.Ports, Methods: w.Methods, Paths: w.Paths, Headers: w.Headers, Query: w.Query,
		Place: w.Place}
}

// Hostexec says which commands may run on the host.
type Hostexec struct {
	// Commands that run without a question.
	AutoApprove []CommandRule `json:"auto_approve"`
	// Commands that a person is asked about.
	ManualApprove []CommandRule `json:"manual_approve"`
	// Commands that never run.
	Deny []CommandRule `json:"deny"`
	// Programs that inside stand for hostexec PROGRAM; git: the remotes that rules name go by way of
	// the guardian.
	Shims []string `json:"shims"`
	// What one command may use, with everything that it starts.
	Limits HostLimits `json:"limits"`
}

// HostLimits bound one command on the host. Zero bounds nothing, but for Memory.
type HostLimits struct {
	// How long it may run.
	Time Duration `json:"time"`
	// How long it may use processors, those of all its processes added up.
	CPU Duration `json:"cpu_time"`
	// Memory, such as 8GiB; three quarters of the machine's unless said. Needs a control group
	// (cloister doctor).
	Memory Size `json:"memory"`
	// Processes and threads. Needs a control group.
	PIDs int64 `json:"pids"`
}

// CommandRule matches a command: by a regular expression, or by a program and
// what it may be given.
type CommandRule struct {
	// A regular expression for the whole command line, from ^ to $.
	Pattern string `json:"pattern"`
	// A program's name, or its whole path.
	Program string `json:"program"`
	// Its words: as they are, or <path>, <ref>, <package>, <any>; a last ... repeats the one before.
	Args []string `json:"args"`
	// The flags that it may have, such as -v, --name, --name=<path>, or '--name <path>' in two words.
	// Another one asks.
	Flags []string        `json:"flags"`
	Place source.Position `json:"-"`
}

// Any reports whether a rule could let a command run.
func (h Hostexec) Any() bool { return len(h.AutoApprove)+len(h.ManualApprove) > 0 }

// Filesystem says what of the host is visible inside, as the person wrote it:
// a leading ~ stands for the person's home and is expanded by the reader.
type Filesystem struct {
	// Host paths to show, PATH[:ro|:rw], read-only unless said.
	Expose []string `json:"expose"`
	// Folders to show read-only at /refs/NAME.
	Refs []string `json:"refs"`
	// Further paths of the project that are read-only inside.
	Protect []string `json:"protect"`
	// Paths of the project that look empty inside.
	Hide []string `json:"hide"`
}

// Resources bound one cloister. Zero means no limit was asked for.
type Resources struct {
	// Memory, such as 8GiB.
	Memory Size `json:"memory"`
	// Processors, such as 4 or 0.5.
	CPUs float64 `json:"cpus"`
	// Processes and threads.
	PIDs int64 `json:"pids"`
}

// State bounds what overlay workspaces take of the disk, and to which keys exported checkpoints
// are sealed. Zero bounds nothing.
type State struct {
	// What all overlay workspaces may take, such as 10GiB.
	Quota Size `json:"quota"`
	// What those of one project may take.
	ProjectQuota Size `json:"project_quota"`
	// Recipients of age, to which exports are sealed.
	Recipients []string `json:"recipients"`
	// Whether memories that checkpoint --memory keeps are encrypted on the disk. The key is sealed by
	// the guardian.
	EncryptMemory bool `json:"encrypt_memory"`
}

// Notify says who is notified of each question, such as a chat or a phone. It answers none.
type Notify struct {
	// A program that gets each question, and each end of one, as a line of JSON.
	Command []string `json:"command"`
	// An https address that gets each question as the JSON body of a POST.
	Webhook string `json:"webhook"`
}

// Audit says where the head of the record is stored outside it.
type Audit struct {
	// A file that anchors are appended to and verified against: best on another machine's disk or
	// where only appending is allowed.
	AnchorFile string `json:"anchor_file"`
	// A program with its arguments that gets each anchor, one line of JSON, as its input.
	AnchorCommand []string `json:"anchor_command"`
}

// Devcontainer says what devcontainers may be made of.
type Devcontainer struct {
	// Where features of registries may be from: REGISTRY/PATH of one, or REGISTRY/PATH/* for all
	// below. Of other sources, cloister devcontainer trust asks at a terminal.
	Features []string `json:"features"`
}

// Agent is what a person adds to what an agent needs.
type Agent struct {
	// Arguments before those that are typed.
	Args []string `json:"args"`
	// Variables inside.
	Env map[string]string `json:"env"`
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
	WorkspaceGit     Workspace = "git"
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
	return []string{string(WorkspaceLive), string(WorkspaceOverlay), string(WorkspaceScratch), string(WorkspaceGit),
		string(WorkspaceNone)}
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
