// Package house_test holds the agreements of the house as tests, each with its
// reason.
//
// It reads every Go file of the module, for every platform, and promises that
// an arrow between rooms points down, that every room is listed and says what
// it is for, and that danger is visible from the names of files. It judges
// imports, names and sizes only: what code does is the linters' and the other
// tests' matter (.golangci.yml, script/test).
//
// A change that fails here either breaks the house or changes it. The second
// belongs in the tables below, with a reason, and in docs/decisions.
package house_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "cloister"

// cellar is under every floor. A room imports rooms of lower floors and the
// cellar, and nothing beside it or above it; rooms of the cellar know each other.
const cellar = -2

// A room is a folder with what is in it: one at the top, or one below it on a floor
// of its own.
type room struct {
	floor int
	why   string
}

// rooms is DESIGN's table of floors. A room is listed from the day it exists.
var rooms = map[string]room{
	"cmd":           {4, "the doors: the only room that knows the environment, exit codes and the guardian"},
	"escape":        {3, "stands beside: attacks the built product, and is no part of it"},
	"bench":         {4, "stands beside: measures the built product, and is no part of it"},
	"script":        {4, "stands beside: runs the checks, and is no part of the product"},
	"guardian":      {3, "the front desk: the only room that knows every enforcer"},
	"serve":         {3, "sandboxes for programs and tenants; drives sessions, and knows no enforcer and no guardian"},
	"secret/inject": {2, "credentials into requests: knows egress and secrets, and no judge"},
	"policyset":     {2, "the configuration on disk as what rules a session; judges nothing"},
	"session":       {2, "the life of a cloister; drives enforcers, is driven by the desk"},
	"sandbox":       {1, "what a driver is, and the drivers"},
	"egress":        {1, "the only way out"},
	"secret/oauth":  {1, "tokens of services that a person logs in to; keeps none"},
	"mcp":           {1, "what passes between a program and an MCP server; knows no HTTP and no rule"},
	"hostexec":      {1, "a command on the host, as it was judged"},
	"git":           {1, "commits on their way between a cloister and a remote repository"},
	"approval":      {1, "what waits for a person; knows no wire, no screen and no policy"},
	"workspace":     {1, "what of the host is seen inside"},
	"agent":         {0, "what a coding agent needs, and what is protected because of it; knows no other room"},
	"host/kernel":   {1, "what this host can enforce"},
	"kernel":        {0, "what the kernel judges itself; compiles no policy and knows no session of ours"},
	"devcontainer":  {1, "a repository's devcontainer as it was read and judged; knows no driver and no guardian"},
	"ui":            {1, "where a person sees and answers: the window, the whole screen, the desktop"},
	"api/client":    {1, "the guardian as the others call it; never imports it"},
	"policy":        {0, "the judge: pure, and knows no enforcer"},
	"state":         {0, "what overlay workspaces changed, kept on disk; knows no session and no policy"},
	"secret":        {0, "credentials, and nothing of who may use them"},
	"audit":         {0, "the record: everyone writes it, so it knows nobody"},
	"api":           {0, "wire types without logic, shared by both ends"},
	"config":        {0, "one frozen value that every floor may be handed (docs/decisions/0002)"},
	"host":          {-1, "whose word a path of this machine is: every floor asks it, and it knows none"},
	"internal":      {cellar, "small things, each named for one property"},

	"workspace/projects": {2, "the projects that are known, with what is said of each; asks no person"},
}

// packages lists every package, so that a new one is a decision. Inside a room
// packages may import each other.
var packages = map[string]string{
	".":                          "the agreements themselves, tests only",
	"agent":                      "what each agent needs",
	"agent/probe":                "one request from inside, to try an agent's credential",
	"api":                        "wire types",
	"api/openapi":                "the API as a document for other programs",
	"approval":                   "the queue of questions",
	"audit":                      "the record",
	"audit/flood":                "what a session is refused too often",
	"audit/bucket":               "a copy of the record in an S3 bucket",
	"audit/ocsf":                 "events in the Open Cybersecurity Schema Framework",
	"audit/otlp":                 "the record, sent to an OpenTelemetry collector",
	"audit/recorder":             "the record of a guardian, opened anew when it could not be written",
	"bench":                      "the budgets, measured beside their peers",
	"bench/decide":               "the judge beside cedar-go, for the bench",
	"bench/install":              "the installation of a peer to compare with",
	"bench/least":                "the least that Go can do between two TLS connections, for the bench",
	"bench/gated":                "an experiment: a payload's files brought to the project as they settle",
	"bench/dressed":              "devcontainers, beside their images without one",
	"bench/facts":                "what the kernel says of the machine, for those who read figures",
	"bench/listed":               "what statements about files and programs cost",
	"bench/forked":               "forks of a memory beside runsc's own",
	"bench/overlays":             "kept workspaces, beside what else keeps a moment of a folder",
	"bench/working":              "npm, git and Go in an overlay beside a live workspace",
	"bench/streams":              "a server of events that say when they were sent, for the bench",
	"api/client":                 "the guardian's socket",
	"cmd/cloister":               "the CLI, one file for each noun",
	"cmd/cloister/cli":           "what every command has of its invocation",
	"cmd/cloister/aftertest":     "generated hostile sessions and what the host does after them, tests only",
	"cmd/cloister/machinetest":   "the built binary on machines of their own, tests only",
	"cmd/cloister/lsmtest":       "the built binary in a guest whose kernel judges files, tests only",
	"cmd/cloister/loadtest":      "load and crashes against the built binary, tests only",
	"cmd/cloister/replicas":      "what a person types of serve about other servers",
	"cmd/cloister/servetest":     "cloister serve with clients and tenants, tests only",
	"cmd/cloister/overlays":      "the commands about overlay workspaces",
	"cmd/cloister/reviews":       "the command about changes that wait for a person",
	"cmd/cloister/records":       "the commands about the record",
	"cmd/cloister/phones":        "the commands about paired phones",
	"cmd/cloister/devcontainers": "the commands about devcontainers, and what one gives to a run",
	"cmd/cloister/images":        "the commands about images, and builds of them by the engine",
	"cmd/cloister/judges":        "the commands about root's service that has the kernel judge",
	"cmd/cloister/secrets":       "the commands about secrets",
	"cmd/cloister/setup":         "the command that gets an agent or a level of isolation ready",
	"cmd/cloister/approvals":     "the commands about what waits for a person",
	"cmd/cloister/projects":      "the commands about projects",
	"cmd/cloister/policies":      "the commands about the policy",
	"cmd/cloister/server":        "the command that serves tenants, and those about them",
	"cmd/cloister/machines":      "the command about machines, and the driver of those that it sets up",
	"cmd/cloister/pods":          "the command about pods, and the driver that it sets up",
	"cmd/cloister/chromium":      "a browser for tests",
	"cmd/cloister/webtest":       "the window of the built binary in a real browser, tests only",
	"cmd/cloister/realtest":      "real programs driven through the built binary, tests only",
	"config":                     "strict configuration and the presets",
	"config/edit":                "one more rule or binding in the text of config.yaml",
	"config/imports":             "other sandboxes' settings, in the words of config.yaml",
	"escape":                     "the runner of attempts, with its verdicts",
	"escape/browser":             "what a browser sends, and what it never would",
	"escape/corpus":              "the attempts, a case in each file",
	"escape/corpus/contained":    "the attempts on what an engine makes of a container",
	"escape/corpus/kept":         "the attempts by way of kept overlay workspaces",
	"escape/corpus/listed":       "the attempts on lists of files and programs",
	"escape/page":                "what readers see of the corpus",
	"escape/hoststate":           "whether a host is as it was",
	"escape/hoard":               "peers that make who stands between them hold memory",
	"cmd/cloister-fleet":         "what servers and fleets need of a record, apart from the program that people start",
	"cmd/cloister-escape":        "the corpus as a command, for tests alone",
	"devcontainer":               "a devcontainer.json with all that it pulls in",
	"devcontainer/jsonc":         "JSON with comments, each key with its place",
	"devcontainer/variables":     "the variables of a devcontainer, replaced",
	"devcontainer/metadata":      "what image, features and file say, merged as specified",
	"devcontainer/compose":       "compose files, each key with its place",
	"devcontainer/demand":        "what a devcontainer asks for: honoured, changed or refused, and why",
	"devcontainer/features":      "features put on an image: their order, variables and definition",
	"devcontainer/featurestest":  "features of registries for tests",
	"devcontainer/pull":          "a feature out of its registry, from inside a cloister",
	"devcontainer/lifecycle":     "the lifecycle commands of a devcontainer, as one script of the inside",
	"devcontainer/oracletest":    "ours beside the reference implementation, tests only",
	"devcontainer/services":      "what each service of judged compose files is started with",
	"devcontainer/trust":         "which devcontainers a person agreed to, by their bytes",
	"ui/pair":                    "a phone is paired, at the computer's terminal",
	"ui/phone":                   "the door for paired phones, with its pages",
	"ui/desktop":                 "notifications, by the session bus",
	"egress":                     "the engine of a session: what a connection speaks, and who serves it",
	"egress/internal/stream":     "one connection of a program, with its two ends and its fate",
	"egress/internal/request":    "the life of one request, whichever protocol carries it",
	"egress/internal/http1":      "requests of HTTP/1, WebSocket and CONNECT",
	"egress/internal/http2":      "requests of HTTP/2",
	"egress/internal/sshproxy":   "SSH ended here, and logins outside",
	"egress/internal/postgres":   "PostgreSQL up to the login",
	"egress/internal/late":       "requests whose answer takes long",
	"egress/internal/ahead":      "the beginning of a body, read before the rest",
	"egress/internal/body":       "the body of a message of HTTP/1, without its framing and with it",
	"egress/internal/buffer":     "the memory that copies pass through",
	"egress/internal/dial":       "connections to servers",
	"egress/internal/dnsmsg":     "questions and answers of DNS as messages",
	"egress/internal/frames":     "bytes of a WebSocket in their order while some are held back",
	"internal/budget":            "memory of what passes through the guardian, bounded over all sessions",
	"egress/internal/quota":      "what a session may do, counted",
	"egress/internal/refused":    "datagrams that the gate's packet rules refused, read and counted",
	"egress/internal/redact":     "the program's end of a connection that is read: no secret's value passes it",
	"egress/internal/guard":      "addresses that no name may lead to",
	"egress/internal/mint":       "certificates of a session's own authority",
	"egress/internal/names":      "an address for each name of a session",
	"egress/internal/sock":       "what the kernel tells of a socket",
	"egress/internal/peek":       "a connection whose first bytes are looked at before they are handed on",
	"egress/internal/tunnel":     "two copies with one fate, by memory and by the kernel",
	"egress/internal/shell":      "SSH between a program and its server",
	"egress/internal/spares":     "connections to servers for a session's next one",
	"egress/internal/rate":       "what happened lately, counted",
	"egress/internal/errtext":    "refusals as programs show them to their users",
	"egress/verdict":             "what is asked before something leaves, what is answered, and what is recorded",
	"egress/internal/refusal":    "what a program receives in the place of what it asked for",
	"egress/internal/dns":        "the answers to a session's questions of DNS",
	"egress/internal/gate":       "where programs reach the gate, its sockets and what is accepted on them",
	"egress/internal/wire":       "parsers of first bytes, which read what an enemy sent and so do nothing else",
	"git":                        "repositories of the guardian's own, which fetch and push",
	"guardian":                   "routes and wiring",
	"guardian/commands":          "host commands since the guardian began",
	"guardian/court":             "the one place that decides about what a session wants",
	"serve/certs":                "the server's certificate, and the next one",
	"serve/database":             "what several servers have in common, as each of them sees it",
	"serve/database/postgres":    "what several servers have in common, in PostgreSQL",
	"git/checkout":               "a clone of the project inside, and its commits' way back",
	"serve/fleet":                "cloister-fleet, started for one connection",
	"serve/objects":              "a bucket of objects, as a server sees it",
	"serve/objects/s3":           "a bucket of objects, in S3",
	"serve/objects/objectstest":  "an S3 server for tests",
	"serve/snapshots":            "the files of sandboxes at a moment, kept",
	"serve/givenup":              "the sandboxes of servers that are out of touch, given up",
	"serve/forward":              "requests for sandboxes of another server, sent on to it",
	"serve/servertest":           "servers held to the same on files and on a database, tests only",
	"serve/servertest/clients":   "clients of servers that are killed, for tests",
	"serve/narrow":               "what a request takes away of a sandbox's network",
	"serve/relay":                "connections to ports inside, by pipes to a program there",
	"serve/wiring":               "the streams and variables of a command in a sandbox",
	"serve/listing":              "which of a tenant's sandboxes a request asks for",
	"serve/people":               "persons by the tokens of their OpenID provider",
	"serve/rates":                "what tenants do with a server, counted",
	"serve/templates":            "what a tenant's sandboxes can be made of, by name",
	"guardian/filequestions":     "what a person is asked about a file that is held closed",
	"guardian/acts":              "records of what our other programs do for a session or a tenant",
	"guardian/devices":           "what waits, for paired phones, and their answers",
	"guardian/question":          "a question as it is put on screens",
	"guardian/requests":          "bodies of requests, read",
	"guardian/folders":           "where a guardian keeps what it keeps",
	"guardian/events":            "what happened lately, for those who watch",
	"guardian/hostcommands":      "what a session wants to have run on the host, decided",
	"guardian/livefiles":         "statements about files and programs, changed in running sessions",
	"guardian/instance":          "the one guardian of a folder, and who connects to it",
	"guardian/listeners":         "the sockets of a session's network, as its shim passed them",
	"guardian/listing":           "what anybody may see of secrets",
	"guardian/mcpservice":        "what a session and its MCP servers say to each other, judged",
	"guardian/records":           "what one reader of the record asks for",
	"guardian/bodies":            "bodies of requests, looked at as they pass",
	"guardian/notify":            "questions, for a person who looks at no screen of ours",
	"guardian/placeholders":      "what a session gets in place of its secrets",
	"guardian/process":           "processes held by descriptor",
	"guardian/uploads":           "which resumable uploads a session began",
	"guardian/sealed":            "what a session needs of the next guardian, readable by no one else",
	"guardian/apierror":          "what went wrong as an answer of the API",
	"guardian/workspaces":        "kept overlay workspaces, for the window",
	"guardian/sessionctx":        "the context of one session, which all services that work for it share",
	"policyset":                  "the configuration on disk, compiled",
	"policyset/passed":           "what sessions did over the network, as the rules that a policy lacks",
	"policyset/learned":          "what sessions were recorded to use, as a policy of files and programs",
	"policyset/export":           "remembered answers as rules for config.yaml",
	"policyset/drafts":           "the configuration's files, as the window changes them",
	"policyset/explain":          "what a policy would say of one case, for the API",
	"policyset/servers":          "the declared MCP servers with their pinned tools, for the API",
	"mcp":                        "frames, streams and pins of MCP",
	"mcp/serve":                  "a cloister as an MCP server, for a client outside",
	"secret/oauth":               "logins by device code and by browser",
	"ui/tui":                     "the whole screen of approvals watch",
	"ui/tui/moments":             "its page of time",
	"ui/tui/pen":                 "lines for a terminal's screen",
	"hostexec/hostrules":         "what rules say of a command for the host",
	"hostexec":                   "digest and run of host commands, and the caller inside",
	"host/resolve":               "where paths and programs of the host lead, and who chose that",
	"host/taint":                 "the register of places that a payload could ever write",
	"internal/authority":         "one canonical spelling of a destination",
	"internal/certfile":          "certificates in a file",
	"internal/cgroup":            "processes that the kernel bounds and ends together",
	"internal/fieldname":         "HTTP field names as the most careless server reads them",
	"internal/source":            "where something is written, and what is wrong there",
	"internal/reading":           "every way in which a server may take one request",
	"internal/exactjson":         "JSON that keeps every byte of a string",
	"internal/durable":           "files that survive a crash",
	"internal/ownfile":           "files that Cloister keeps for itself, opened as it made them",
	"internal/needs":             "what a test needs of its machine",
	"internal/noecho":            "a line of a terminal that is not shown",
	"internal/linediff":          "a text as changes to an older one",
	"internal/nearest":           "the nearest right word to a wrong one",
	"internal/pathglob":          "patterns of paths, matched in bounded time",
	"internal/passfd":            "descriptors over a unix socket",
	"internal/rawcall":           "names made and removed without a word to the scheduler",
	"internal/realpath":          "a path without symbolic links, by the kernel's word",
	"internal/peercred":          "who is at the other end of a unix socket",
	"internal/hint":              "errors that carry advice",
	"internal/random":            "bytes and words that cannot be guessed",
	"internal/shebang":           "the first line of a script, as the kernel reads it",
	"internal/shellword":         "a command line as a shell reads it",
	"internal/sigquit":           "SIGQUIT with the effect that it has on other programs",
	"internal/stackroom":         "the stack that a goroutine needs, before it begins",
	"internal/standin":           "files shown in the place of programs that a person has not allowed yet",
	"internal/tenants":           "hosts that many tenants share",
	"internal/termsafe":          "bytes that cannot steer a terminal",
	"internal/yamlbound":         "refuses YAML that would be slow to read",
	"internal/vscreen":           "the screen that a program's output draws",
	"internal/twoway":            "one connection of two",
	"internal/urlpath":           "one spelling of a request's path",
	"internal/xdg":               "the folders of one instance",
	"host/kernel":                "facts about the host's kernel",
	"kernel/lsm":                 "files and programs, judged in the kernel",
	"kernel/lsm/service":         "users' control groups, judged by root",
	"policy":                     "the judge",
	"policy/destination":         "the destinations of --allow and --deny as rules",
	"policy/allowing":            "the words that would allow what was refused",
	"policy/cedarhost":           "the hosts of Cedar policies",
	"policy/cedartext":           "where in a Cedar file something is wrong, in a person's words",
	"policy/fileverdict":         "what becomes of a file that is opened, by the statements of a policy",
	"policy/leashtest":           "Leash's policies decided here and by cedar-go, tests only",
	"policy/filerule":            "what could keep a statement about files and programs",
	"policy/suggest":             "the rules that a policy lacks for what was seen",
	"sandbox":                    "the contract of a driver",
	"sandbox/apart":              "boxes that processes of their own hold",
	"sandbox/onhost":             "handles of boxes that are processes of this host",
	"sandbox/judge":              "the kernel's judge of files, for a box",
	"sandbox/watch":              "what a box executes and opens, by notifications of a filter",
	"sandbox/seccomp":            "the system calls that a payload may make",
	"sandbox/landlock":           "which files a payload may use, and for what",
	"sandbox/streams":            "the caller's standard descriptors, before they are handed in",
	"sandbox/remount":            "protected paths, covered again when the host took their mounts",
	"sandbox/plan":               "an enclosure as a list of steps",
	"sandbox/gate":               "what the only network of a cloister is made of",
	"sandbox/relay":              "between the caller's terminal and the cloister's own",
	"sandbox/docker":             "the driver of containers, by an engine's API",
	"sandbox/docker/engine":      "an engine's API over its socket",
	"sandbox/docker/definition":  "an image's definition as it is read here and by the engine",
	"sandbox/docker/refuse":      "what an engine cannot do for a cloister",
	"sandbox/docker/judged":      "containers judged by the kernel",
	"sandbox/docker/inside":      "what runs in the containers before the command does",
	"sandbox/gate/lay":           "a gate made by plain system calls",
	"sandbox/kubernetes":         "the driver whose cloisters are pods",
	"sandbox/kubernetes/exact":   "a pod that someone else made, compared with the one that was asked for",
	"sandbox/kubernetes/feed":    "a program's standard input: some bytes first, then the caller's",
	"sandbox/kubernetes/link":    "what a gate in a pod and its shim say to each other",
	"sandbox/kubernetes/pod":     "what runs in pods",
	"sandbox/kubernetes/tree":    "folders of the host, copied into pods, and what changed there, back",
	"sandbox/gvisor":             "the driver whose cloisters have gVisor for a kernel",
	"sandbox/microvm":            "the driver whose cloisters are machines of QEMU's",
	"sandbox/microvm/engine":     "the private container engine of a guest",
	"sandbox/microvm/guest":      "the first process of a machine's guest",
	"sandbox/microvm/kernel":     "what a guest is booted from, by digest",
	"sandbox/microvm/monitor":    "what native's enclosure of a machine executes",
	"sandbox/microvm/template":   "machines kept as they stand before a session, by digest",
	"sandbox/microvm/walled":     "programs behind walls of their own",
	"sandbox/microvm/wire":       "what a guest and its monitor say to each other",
	"sandbox/image":              "root file systems of OCI images, unpacked without an engine",
	"sandbox/image/chosen":       "which image a cloister's system is",
	"sandbox/localuser":          "the driver whose namespaces root's helper makes",
	"sandbox/native":             "the driver that needs nothing installed",
	"sandbox/sandboxtest":        "the meaning of a driver, as tests",
	"sandbox/sandboxtest/echo":   "a gate that sends back what comes, for tests of drivers",
	"sandbox/sandboxtest/back":   "what a copy of a project changed, applied, for the suite of drivers",
	"sandbox/sandboxtest/system": "a root file system of this host's programs, for tests of drivers",
	"sandbox/sandboxtest/tools":  "which tools work inside, level by level, as tests",
	"script/arrows":              "how the files of a package refer to each other, printed",
	"script/check":               "the runner of every check",
	"script/check/reaper":        "processes, mounts and the like that checks leave behind",
	"script/check/rows":          "the rows that checks print and write",
	"script/check/processors":    "how much of the machine's processors is left",
	"script/check/racing":        "which test programs could have a data race",
	"script/check/tally":         "the tests of one package, counted",
	"script/check/typecheck":     "the types of the tree for another platform",
	"serve":                      "the sandboxes of a server's tenants",
	"serve/connect":              "the Connect protocol with JSON, as a server",
	"serve/e2b/answer":           "errors and documents as E2B's SDKs read them",
	"serve/e2b/envd":             "calls for one sandbox's files and processes",
	"serve/e2b":                  "the wire of E2B's SDKs",
	"serve/e2b/wire":             "what requests of E2B's SDKs say about the network",
	"serve/files":                "a sandbox's files, by a program that runs inside",
	"serve/tenants":              "whose requests a server answers, by their keys",
	"secret":                     "values that cannot be printed, placeholders, bindings",
	"secret/sigv4":               "signatures of requests to Amazon's services",
	"secret/sshkey":              "what logs in by SSH, outside",
	"secret/vault":               "the encrypted file of one user's secrets",
	"session":                    "the process that owns a cloister",
	"session/report":             "a run, summed up in a file",
	"session/registry":           "the guardian's list of sessions, and the table of their states",
	"session/acp":                "between an editor and an agent inside that speak the Agent Client Protocol",
	"session/beside":             "a devcontainer's services, each a cloister beside its agent's",
	"session/browsers":           "what Chromium and its kin inside trust",
	"session/doctor":             "what this machine can guarantee, and what would mend the rest",
	"session/dressing":           "what a devcontainer gives to a run",
	"session/globs":              "what patterns of statements name on this host when a session starts",
	"session/filerecord":         "what commands that joined do with files and programs, sent to be recorded",
	"session/inside":             "further commands in a live cloister, by pipes",
	"session/kept/compare":       "overlay workspaces side by side",
	"session/kept":               "what a person does to overlay workspaces, each act recorded first",
	"session/javastore":          "the store of authorities that Java inside trusts",
	"session/launch":             "what was typed as a plan, and the process that carries it out",
	"session/terminal":           "one program's terminal, for several people's",
	"session/memory":             "the memory of running cloisters, kept with a checkpoint, and the children that go on from it",
	"session/srt":                "sandbox-runtime's settings as what a session is asked for",
	"session/stats":              "the numbers of one session",
	"session/ending":             "what a person is shown when a session is over",
	"session/heldpath":           "why a program inside could not write a protected path, for its person",
	"ui/web":                     "the window's door and pages",
	"state/acl":                  "POSIX access lists of files, read and set",
	"state/archive":              "the layers of one checkpoint as one file, and back",
	"state/aging":                "which automatic checkpoints go as they grow old",
	"state/layers":               "what overlay layers changed, and layers themselves",
	"state/parts":                "layers in parts: the project, the private home, the repository",
	"state/restored":             "files that are again what they were, because an apply was undone",
	"state/unchanged":            "workspaces that were removed because nothing was changed in them",
	"state/apply":                "changes into a project, all or none, and back",
	"state/store":                "kept workspaces with their checkpoints",
	"state/held":                 "which changes an apply brings over only with a person's word",
	"state/patch":                "changes as text",
	"state/bases":                "what texts were before they were changed, for merges",
	"state/sealed":               "archives of checkpoints, encrypted",
	"state/quota":                "what workspaces take of the disk, added up against bounds",
	"state/merge":                "changes of one text, joined and taken apart",
	"internal/origin":            "where a stream was going, beside it",
	"internal/freeze":            "the processes of one cloister, held still",
	"secret/inject":              "placeholders in requests become credentials, and back",
	"secret/inject/unpack":       "content codings, undone within a bound of memory",
	"workspace":                  "the plan of the view",
	"workspace/identity":         "a project held to what it was at its first use",
	"workspace/gitdir":           "git's own folders, read without git",
	"workspace/protect":          "which paths of a project are read-only or hidden inside",
	"workspace/hostgit":          "git of the host, in a repository that an agent may have written to",
	"workspace/worktrees":        "the working trees of a project's branches",
	"workspace/toolchain":        "what of the host's PATH is shown inside",
	"workspace/homes":            "the private homes of projects on disk",
	"workspace/clean":            "what a payload left that stands in the way of later starts, removed",
	"workspace/obeyed":           "what programs of the host run or obey in a project",
	"workspace/projects":         "the projects that are known, and what applies in each",
	"workspace/review":           "what sessions changed, until a person decided",
	"workspace/stubs":            "absent names, held",
}

// sideways are the arrows between neighbours that the house lives with. It is a
// list of debts: it may shrink.
var sideways = map[string]string{
	"workspace → sandbox":             "a plan is written in the words of the Spec (HostPath, GuestPath, Bind, Protect): a second set of the same words would have to be kept equal",
	"workspace/protect → sandbox":     "protected paths are written in the words of the Spec (Protect, File), as the plan is",
	"sandbox/sandboxtest → workspace": "the suite holds a driver to the view that a real run gets, not to one of its own making",

	"sandbox/sandboxtest → workspace/obeyed": "what came back of a copy is applied as a person's apply would, which asks this",
}

// onlyFor are packages with a closed circle of readers.
var onlyFor = map[string]struct {
	readers []string
	why     string
}{
	"guardian":                {[]string{"cmd/cloister", "cmd/cloister/cli"}, "a room that imported the desk could reach every enforcer through it"},
	"sandbox/docker":          {[]string{"cmd/cloister", "cmd/cloister/devcontainers", "cmd/cloister/images"}, "a driver is chosen at the door; everyone else holds the contract"},
	"sandbox/gvisor":          {[]string{"cmd/cloister", "cmd/cloister/setup"}, "a driver is chosen at the door; everyone else holds the contract"},
	"sandbox/localuser":       {[]string{"cmd/cloister", "cmd/cloister/setup"}, "a driver is chosen at the door; everyone else holds the contract"},
	"sandbox/microvm":         {[]string{"cmd/cloister/machines"}, "a driver is chosen at the door; everyone else holds the contract"},
	"sandbox/native":          {[]string{"cmd/cloister", "sandbox/gvisor", "sandbox/localuser", "sandbox/microvm"}, "a driver is chosen at the door; a kernel of its own stands in native's enclosure, and root's helper builds it for others"},
	"sandbox/apart":           {[]string{"sandbox/native", "sandbox/localuser"}, "a driver says that its boxes need a process each; whoever has several asks it"},
	"serve/objects/s3":        {[]string{"cmd/cloister-fleet"}, "cloister itself carries no client of S3 (docs/decisions/0101)"},
	"serve/database/postgres": {[]string{"cmd/cloister-fleet"}, "cloister itself carries no database's client (docs/decisions/0101)"},
	"internal/needs":          {nil, "it imports testing; only tests read it"},
	"sandbox/sandboxtest":     {nil, "it imports testing; only tests read it"},

	"sandbox/sandboxtest/system": {nil, "it imports testing; only tests read it"},
	"sandbox/sandboxtest/tools":  {nil, "it imports testing; only tests read it"},
	"sandbox/sandboxtest/echo":   {[]string{"sandbox/sandboxtest"}, "it imports testing; only tests read it"},
	"sandbox/sandboxtest/back":   {[]string{"sandbox/sandboxtest"}, "a person's apply is the store's; this is the suite's"},

	"cmd/cloister/chromium": {nil, "it imports testing; only tests read it"},
}

// mayImportTesting are the packages outside _test.go files that may.
var mayImportTesting = map[string]string{
	"cmd/cloister/chromium": "a browser that two packages of tests drive, and nobody else",
	"internal/needs":        "what tests of all rooms ask of their machine",
	"sandbox/sandboxtest":   "the conformance suite is a library of tests that every driver runs",

	"sandbox/sandboxtest/system": "what tests of several drivers show as an image",
	"sandbox/sandboxtest/tools":  "what tests of several drivers run",
	"sandbox/sandboxtest/echo":   "what the suite's cloisters connect to",
}

// large are rooms over the size at which a room is split, with what they are
// and a size over which there is no more talk. Tables of data do not count.
var large = map[string]struct {
	lines int
	why   string
}{
	"config":         {3200, "one strict value: every key of every file is read and checked here, and nowhere else"},
	"bench":          {3500, "one file for each subject that is measured; nothing in one knows another; the client of all is the next to move out"},
	"cmd/cloister":   {5000, "one file for each noun, and the order of a run (shim.go, start.go); guardian.go and worktree.go are the next to move out"},
	"guardian":       {5100, "one route table and the wiring of every enforcer; what the window asks of this program is the next to move out"},
	"policy":         {5050, "the index, the Cedar text and the reader of Cedar files must decide alike; what Cedar says wrong of a text has moved out"},
	"escape/corpus":  {14000, "one file for each case; nothing in one knows another, and each new row of the table adds one"},
	"workspace":      {3000, "project, plan, protected and closed paths end in one list of mounts"},
	"sandbox/docker": {2800, "containers, the engine's images and builds by it are one conversation with one engine; builds are the next to move out"},
	"sandbox/native": {5000, "one list of system calls, made here and executed here"},
}

const (
	fileTalk, fileMost = 400, 450
	roomTalk, roomMost = 2000, 2500
)

// forbidden are names that say nothing about what is inside.
var forbidden = []string{"pkg", "util", "utils", "common", "types", "models", "helpers", "misc", "shared", "lib"}

// A file is one Go file of the module.
type file struct {
	name    string // from the top, with slashes
	dir     string // its package
	imports []string
	own     []string // those of the module, by their folders
	doc     string
	lines   int
	test    bool
}

func TestArrows(t *testing.T) {
	used := map[string]bool{}
	for _, f := range files(t) {
		from := roomOf(f.dir)
		if f.dir == "." || f.test {
			continue
		}
		for _, to := range f.own {
			if at := roomOf(to); at != from && rooms[at].floor >= rooms[from].floor {
				arrow := f.dir + " → " + to
				if _, known := sideways[arrow]; known {
					used[arrow] = true
					continue
				}
				t.Errorf("%s: imports %s: floor %d (%s) may not look at floor %d (%s)",
					f.name, to, rooms[from].floor, rooms[from].why, rooms[at].floor, rooms[at].why)
			}
		}
	}
	for arrow := range sideways {
		if !used[arrow] {
			t.Errorf("sideways lists %q, which nothing needs any more: strike it", arrow)
		}
	}
}

func TestTestsLookDown(t *testing.T) {
	for _, f := range files(t) {
		from := roomOf(f.dir)
		if !f.test || f.dir == "." {
			continue
		}
		for _, to := range f.own {
			if at := roomOf(to); rooms[at].floor > rooms[from].floor {
				t.Errorf("%s: imports %s from a higher floor", f.name, to)
			}
		}
	}
}

func TestClosedCircles(t *testing.T) {
	for _, f := range files(t) {
		for _, to := range f.own {
			if c, closed := onlyFor[to]; closed && !f.test && f.dir != to && !slices.Contains(c.readers, f.dir) {
				t.Errorf("%s: imports %s: %s", f.name, to, c.why)
			}
		}
	}
}

func TestEveryRoomIsListed(t *testing.T) {
	found := map[string]bool{}
	for _, f := range files(t) {
		found[f.dir] = true
		if _, listed := packages[f.dir]; !listed {
			packages[f.dir] = "" // say it once
			t.Errorf("package %s is not listed: say in house_test.go what it is for", f.dir)
		}
		if _, listed := rooms[roomOf(f.dir)]; !listed && f.dir != "." {
			t.Errorf("%s: room %s has no floor", f.name, roomOf(f.dir))
		}
	}
	for dir := range packages {
		if !found[dir] {
			t.Errorf("package %s is listed but does not exist", dir)
		}
	}
}

func TestNamesSayWhatIsInside(t *testing.T) {
	for _, f := range files(t) {
		for part := range strings.SplitSeq(f.dir, "/") {
			if slices.Contains(forbidden, part) {
				t.Errorf("%s: a folder named %q could hold anything", f.name, part)
			}
		}
	}
}

func TestEveryPackageSaysItsPurpose(t *testing.T) {
	docs := map[string]string{}
	for _, f := range files(t) {
		if !f.test || f.dir == "." {
			docs[f.dir] += f.doc
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(docs)) {
		if len(strings.Fields(docs[dir])) < 8 {
			t.Errorf("package %s has no comment that says its purpose, its promise and what it does not do", dir)
		}
	}
}

func TestTestingStaysInTests(t *testing.T) {
	for _, f := range files(t) {
		if _, may := mayImportTesting[f.dir]; f.test || may {
			continue
		}
		for _, name := range f.imports {
			if name == "testing" || strings.HasPrefix(name, "testing/") {
				t.Errorf("%s: imports %s: the product would carry test flags", f.name, name)
			}
		}
	}
}

// kernelSource is what the kernel's own machine runs (BPF): its objects are kept beside it
// and embedded, and a test compares them (kernel/lsm).
const kernelSource = "kernel/lsm/bpf"

func TestDangerIsVisibleInNames(t *testing.T) {
	guarded := map[string]bool{}
	for _, f := range files(t) {
		if strings.HasSuffix(f.name, "_unsafe.go") || strings.HasSuffix(f.name, "_unsafe_test.go") {
			guarded[f.dir] = true
			continue
		}
		if slices.Contains(f.imports, "unsafe") {
			t.Errorf("%s: imports unsafe: only a file named *_unsafe.go may", f.name)
		}
		if slices.Contains(f.imports, "C") {
			t.Errorf("%s: imports C: the binary is built with CGO_ENABLED=0", f.name)
		}
	}
	for _, name := range tree(t) {
		switch path.Ext(name) {
		case ".s":
			if !guarded[path.Dir(name)] {
				t.Errorf("%s: assembly with no *_unsafe.go beside it", name)
			}
		case ".c", ".h", ".cc", ".cpp", ".syso":
			if path.Dir(name) == kernelSource {
				continue
			}
			t.Errorf("%s: the binary is built from Go alone", name)
		}
	}
}

// Every start of the command initialises every package: three patterns, one of
// them with a counted repetition, once took half a millisecond of each.
func TestNoPatternIsCompiledAtStart(t *testing.T) {
	early := regexp.MustCompile(`(?m)^(var |\t)\w+ += regexp\.MustCompile\(`)
	for _, f := range files(t) {
		if f.test || strings.HasPrefix(f.name, "bench/") || strings.HasPrefix(f.name, "escape/") || strings.HasPrefix(f.name, "script/") {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		if at := early.Find(text); at != nil {
			t.Errorf("%s: %q: wrap it in sync.OnceValue", f.name, strings.TrimSpace(string(at)))
		}
	}
}

func TestSizes(t *testing.T) {
	sum := map[string]int{}
	for _, f := range files(t) {
		if f.test || strings.Contains(path.Base(f.name), "_table_") {
			continue
		}
		sum[f.dir] += f.lines
		switch {
		case f.lines > fileMost:
			t.Errorf("%s has %d lines: split it", f.name, f.lines)
		case f.lines > fileTalk:
			t.Logf("%s has %d lines: worth a talk", f.name, f.lines)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(sum)) {
		most := max(roomMost, large[dir].lines)
		switch {
		case sum[dir] > most:
			t.Errorf("%s has %d lines, over %d: split it", dir, sum[dir], most)
		case sum[dir] > roomTalk:
			t.Logf("%s has %d lines: worth a talk", dir, sum[dir])
		}
	}
}

func TestTheTablesCarryReasons(t *testing.T) {
	reasons := map[string]string{}
	for name, r := range rooms {
		reasons["room "+name] = r.why
	}
	for name, why := range packages {
		reasons["package "+name] = why
	}
	for name, why := range sideways {
		reasons["arrow "+name] = why
	}
	for name, c := range onlyFor {
		reasons["circle "+name] = c.why
	}
	for name, l := range large {
		reasons["large "+name] = l.why
	}
	for name, why := range reasons {
		if why == "" {
			t.Errorf("%s has no reason", name)
		}
	}
}

// A suppression of a linter that is not enabled suppresses nothing, and nolintlint
// only looks at those of enabled ones.
func TestSuppressionsNameEnabledLinters(t *testing.T) {
	config, err := os.ReadFile(".golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(config), "  enable:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	named := regexp.MustCompile(`//nolint:([\w,]+)`)
	for _, f := range files(t) {
		text, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			for linter := range strings.SplitSeq(found[1], ",") {
				if !strings.Contains(list+"\n", "- "+linter+"\n") {
					t.Errorf("%s suppresses %s, which .golangci.yml does not enable", f.name, linter)
				}
			}
		}
	}
}

// A decision is named by its number, in code and in other decisions.
func TestDecisionsHaveNumbersOfTheirOwn(t *testing.T) {
	pages, err := filepath.Glob("docs/decisions/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d decisions, %v", len(pages), err)
	}
	taken := map[string]string{}
	for _, page := range pages {
		number, _, _ := strings.Cut(filepath.Base(page), "-")
		if other := taken[number]; other != "" {
			t.Errorf("%s and %s have one number", other, page)
		}
		taken[number] = page
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if title, _, _ := strings.Cut(string(text), "\n"); !strings.HasPrefix(title, "# "+number+" ") {
			t.Errorf("%s begins with %q", page, title)
		}
	}
}

// roomOf gives the room of a package: its top folder.
func roomOf(dir string) string {
	for at := dir; at != "."; at = path.Dir(at) {
		if _, ok := rooms[at]; ok {
			return at
		}
	}
	name, _, _ := strings.Cut(dir, "/")
	return name
}

// tree lists every file that could be built.
func tree(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && holds(name, "go.mod"):
			return fs.SkipDir // another module
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.IsDir():
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// holds tells whether a folder has a file of that name.
func holds(dir, file string) bool {
	_, err := os.Stat(filepath.Join(filepath.FromSlash(dir), file))
	return err == nil
}

// files parses every Go file of the module, whatever platform it is for.
func files(t *testing.T) []file {
	t.Helper()
	var list []file
	for _, name := range tree(t) {
		if path.Ext(name) != ".go" {
			continue
		}
		f, err := parse(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	if len(list) < 50 {
		t.Fatalf("found %d Go files: this is not the house", len(list))
	}
	return list
}

func parse(name string) (file, error) {
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		return file{}, fmt.Errorf("read: %w", err)
	}
	tree, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return file{}, fmt.Errorf("parse: %w", err)
	}
	f := file{name: name, dir: path.Dir(name), lines: strings.Count(string(text), "\n"), test: strings.HasSuffix(name, "_test.go")}
	f.doc = tree.Doc.Text()
	for _, spec := range tree.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, fmt.Errorf("import: %w", err)
		}
		f.imports = append(f.imports, to)
		if dir, ours := strings.CutPrefix(to, module+"/"); ours {
			f.own = append(f.own, dir)
		}
	}
	return f, nil
}

// mayResolve are the files outside host/resolve that follow a link or search a PATH,
// each with why no payload and no lesser user gains by it.
var mayResolve = map[string]string{
	"cmd/cloister/git.go":                   "runs inside: git there is the cloister's own",
	"git/checkout/checkout.go":              "runs inside: git there is the cloister's own",
	"cmd/cloister/hostexec.go":              "reads the name of this very process",
	"sandbox/image/chosen/chosen.go":        "a folder of Cloister's own store of images",
	"session/locale.go":                     "reads the name of a time zone, and opens nothing",
	"cmd/cloister/cli/words.go":             "only for a hint: whether a word is the name of a program",
	"cmd/cloister/run.go":                   "only for a hint: whose script a command is",
	"session/launch/places.go":              "compares Cloister's own folders by name",
	"guardian/mcpbridge.go":                 "compares by name, to refuse; the program goes by host/resolve too",
	"hostexec/operands_linux.go":            "compares by name, to refuse; the program goes by host/resolve too",
	"hostexec/prepare_linux.go":             "compares by name, to refuse; the program goes by host/resolve too",
	"cmd/cloister/overlays/kept.go":         "a path that the person typed, compared with a project's own by name",
	"internal/durable/update.go":            "writes a file of the person's where its link leads, with what they saw",
	"internal/freeze/looks_linux.go":        "reads the names of namespaces",
	"internal/freeze/freeze_linux.go":       "reads the names of namespaces",
	"internal/realpath/in.go":               "links of a box's own root, which are followed inside it",
	"internal/realpath/of_linux.go":         "the walk itself, for names that are compared",
	"internal/realpath/of_other.go":         "the walk itself, for names that are compared",
	"sandbox/watch/names_linux.go":          "reads names for the record, and opens nothing by them",
	"policyset/drafts/drafts.go":            "a file of the person's own configuration",
	"sandbox/docker/docker_linux.go":        "the file of this very program",
	"sandbox/docker/image_linux.go":         "reads a link to copy it as one",
	"sandbox/streams/streams_linux.go":      "the name of an open descriptor's file, to know a memory file",
	"serve/files/serve_linux.go":            "runs inside: the kernel resolves in the sandbox's own mount namespace",
	"serve/files/watch_linux.go":            "runs inside: the kernel resolves in the sandbox's own mount namespace",
	"serve/files/pack_linux.go":             "runs inside: reads a link to copy it as one",
	"sandbox/docker/inside/engine_linux.go": "runs inside: the name of a namespace",
	"sandbox/image/host.go":                 "copies root's own programs into an image, links as links",
	"sandbox/image/programs.go":             "finds the files of programs that an image copies",
	"sandbox/native/facts_linux.go":         "root's own links at / and in /etc",
	"workspace/gitdir/shape.go":             "reads a link to see what git makes of it, and opens nothing",
	"workspace/protect/links.go":            "holds each link on the way, and opens nothing",
	"workspace/hostgit/hostgit.go":          "reads a link to name it in a refusal",
}

// mayStart are the files that start a program of the host, each with how it is found.
// A bare name would be looked for on PATH by package os/exec, where a payload could have
// put it.
var mayStart = map[string]string{
	"serve/fleet/fleet.go":                   "the program of the same release, beside cloister itself",
	"cmd/cloister/overlays/again.go":         "this very program, with the words of fork and compare",
	"cmd/cloister/cli/inside.go":             "this very program",
	"cmd/cloister/chromium/browser.go":       "only tests: a browser of the system",
	"cmd/cloister/git.go":                    "runs inside: git there is the cloister's own",
	"git/checkout/checkout.go":               "runs inside: git and the command there are the cloister's own",
	"cmd/cloister/cli/guardian.go":           "this very program, as the guardian",
	"cmd/cloister/cli/program.go":            "host/resolve",
	"git/command.go":                         "host/resolve",
	"git/reach.go":                           "host/resolve",
	"guardian/mcpbridge.go":                  "host/resolve",
	"guardian/tools.go":                      "this very program, as the probe of doctor",
	"kernel/lsm/start_linux.go":              "a file in memory that is no program, as the canary",
	"hostexec/keep_linux.go":                 "the file that host/resolve found and a person saw, held by its digest",
	"hostexec/run_linux.go":                  "this very program, as the keeper of a host command",
	"hostexec/under_linux.go":                "this very program, as the keeper of a host command",
	"sandbox/apart/driver_linux.go":          "this very program, as the process that owns a box",
	"sandbox/localuser/helper_linux.go":      "this very program, as the process of root's that owns a box",
	"sandbox/docker/ids_linux.go":            "this very program, as the process that holds a user namespace",
	"sandbox/docker/inside/init_linux.go":    "runs inside: the cloister's own",
	"sandbox/docker/inside/payload_linux.go": "runs inside: the command",
	"sandbox/kubernetes/pod/agent_linux.go":  "runs inside: the command",
	"sandbox/microvm/engine/engine_linux.go": "in a guest: Docker's daemon, of the view",
	"sandbox/microvm/guest/engine_linux.go":  "in a guest: this very program, as the one that becomes the engine",
	"sandbox/microvm/guest/wake_linux.go":    "in a guest: itself again, from the initrd",
	"sandbox/microvm/walled/walled_linux.go": "in a guest: the command; in the enclosure: QEMU and virtiofsd as host/resolve found them",
	"sandbox/kubernetes/kubectl.go":          "kubectl as host/resolve found it at setup, looked at again before each call",
	"secret/vault/exec.go":                   "host/resolve",
	"guardian/notify/notify.go":              "notify.command, by host/resolve",
	"session/launch/process.go":              "this very program, as the shim of a cloister",
	"workspace/hostgit/hostgit.go":           "host/resolve",
	"workspace/hostgit/sources.go":           "host/resolve",
}

// Whoever starts a program says how it was found.
func TestProgramsOfTheHostAreFoundByTheResolver(t *testing.T) {
	callsOnly(t, regexp.MustCompile(`\b(exec\.Command|exec\.CommandContext|os\.StartProcess|syscall\.Exec|unix\.Exec|syscall\.ForkExec)\(`),
		mayStart, "mayStart", "a program of the host goes by host/resolve, as a.Program has it")
}

// Below the command line no file runs a command of it: what this program starts itself
// as has a name of its own, which no person types. Fork and compare still do, in cmd.
func TestNothingRunsTheCommandLine(t *testing.T) {
	root, err := os.ReadFile("cmd/cloister/root.go")
	if err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for _, found := range regexp.MustCompile(`\{"(\w+)", of\w+, `).FindAllStringSubmatch(string(root), -1) {
		if !slices.Contains([]string{"shim", "guardian"}, found[1]) {
			verbs = append(verbs, found[1])
		}
	}
	if len(verbs) < 25 {
		t.Fatalf("found only %q", verbs)
	}
	words := regexp.MustCompile(`\[\]string\{[^{}]*"(` + strings.Join(verbs, "|") + `)"`)
	if !words.MatchString(`[]string{self, "start", "--detach"}`) {
		t.Fatal("the pattern finds nothing")
	}
	for name, how := range mayStart {
		if !strings.HasPrefix(how, "this very program") || strings.HasPrefix(name, "cmd/") {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		if found := words.FindString(string(text)); found != "" {
			t.Errorf("%s: %s: start a shim by session/launch instead", name, found)
		}
	}
}

// One resolver follows the links of this host (host/resolve): whoever follows one by
// another way shows or runs what a payload chose.
func TestOnlyTheResolverResolves(t *testing.T) {
	callsOnly(t, regexp.MustCompile(`\b(os\.Readlink|unix\.Readlink|filepath\.EvalSymlinks|exec\.LookPath)\(`),
		mayResolve, "mayResolve", "paths and programs of the host go by host/resolve")
}

// callsOnly holds the calls of a kind to the files of a list.
func callsOnly(t *testing.T, call *regexp.Regexp, may map[string]string, list, rule string) {
	t.Helper()
	used := map[string]bool{}
	for _, f := range files(t) {
		if f.test || strings.HasPrefix(f.name, "host/") || slices.Contains([]string{"bench", "escape"}, roomOf(f.dir)) ||
			slices.Contains([]string{"cmd/cloister-escape", "sandbox/sandboxtest", "sandbox/sandboxtest/system", "internal/needs"}, f.dir) || strings.HasPrefix(f.name, "script/") {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			at := call.FindString(line)
			if at == "" || strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			used[f.name] = true
			if may[f.name] == "" {
				t.Errorf("%s: %s: %s", f.name, strings.TrimSuffix(at, "("), rule)
			}
		}
	}
	for name := range may {
		if !used[name] {
			t.Errorf("%s lists %s, which has no such call any more: strike it", list, name)
		}
	}
}
