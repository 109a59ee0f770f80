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
const cellar = -1

// A room is a folder at the top with what is in it.
type room struct {
	floor int
	why   string
}

// rooms is DESIGN's table of floors. A room is listed from the day it exists.
var rooms = map[string]room{
	"cmd":       {4, "the doors: the only room that knows the environment, exit codes and the guardian"},
	"escape":    {3, "stands beside: attacks the built product, and is no part of it"},
	"bench":     {4, "stands beside: measures the built product, and is no part of it"},
	"guardian":  {3, "the front desk: the only room that knows every enforcer"},
	"swap":      {2, "credentials into requests: knows egress and secrets, and no judge"},
	"rulebook":  {2, "the configuration on disk as what rules a session; judges nothing"},
	"session":   {2, "the life of a cloister; drives enforcers, is driven by the desk"},
	"sandbox":   {1, "what a driver is, and the drivers"},
	"egress":    {1, "the only way out"},
	"oauth":     {1, "tokens of services that a person logs in to; keeps none"},
	"mcp":       {1, "what passes between a program and an MCP server; knows no HTTP and no rule"},
	"panel":     {1, "questions and answers on a whole screen"},
	"hostexec":  {1, "a command on the host, as it was judged"},
	"desktop":   {1, "the person's desktop, told that questions wait"},
	"git":       {1, "commits on their way between a cloister and a remote repository"},
	"approval":  {1, "what waits for a person; knows no wire, no screen and no policy"},
	"workspace": {1, "what of the host is seen inside"},
	"agent":     {1, "what a coding agent needs; knows no other room"},
	"kernel":    {1, "what this host can enforce"},
	"web":       {1, "the window's pages, and whose browser may see them"},
	"client":    {1, "the guardian as the others call it; never imports it"},
	"policy":    {0, "the judge: pure, and knows no enforcer"},
	"secret":    {0, "credentials, and nothing of who may use them"},
	"audit":     {0, "the record: everyone writes it, so it knows nobody"},
	"api":       {0, "wire types without logic, shared by both ends"},
	"config":    {0, "one frozen value that every floor may be handed (docs/decisions/0002)"},
	"internal":  {cellar, "small things, each named for one property"},
}

// packages lists every package, so that a new one is a decision. Inside a room
// packages may import each other.
var packages = map[string]string{
	".":                      "the agreements themselves, tests only",
	"agent":                  "what each agent needs",
	"api":                    "wire types",
	"api/openapi":            "the API as a document for other programs",
	"approval":               "the queue of questions",
	"audit":                  "the record",
	"audit/flood":            "what a session is refused too often",
	"audit/recorder":         "the record of a guardian, opened anew when it could not be written",
	"bench":                  "the budgets, measured beside their peers",
	"bench/least":            "the least that Go can do between two TLS connections, for the bench",
	"bench/streams":          "a server of events that say when they were sent, for the bench",
	"client":                 "the guardian's socket",
	"cmd/cloister":           "the CLI, one file for each noun",
	"cmd/cloister/loadtest":  "load and crashes against the built binary, tests only",
	"cmd/cloister/chromium":  "a browser for tests",
	"cmd/cloister/webtest":   "the window of the built binary in a real browser, tests only",
	"cmd/cloister/realtest":  "real programs driven through the built binary, tests only",
	"config":                 "strict configuration and the presets",
	"escape":                 "the runner of attempts, with its verdicts",
	"escape/corpus":          "the attempts, a case in each file",
	"cmd/cloister-escape":    "the corpus as a command, for tests alone",
	"desktop":                "notifications, by the session bus",
	"egress":                 "gate, names, tunnels, proxies",
	"egress/internal/guard":  "addresses that no name may lead to",
	"egress/internal/mint":   "certificates of a session's own authority",
	"egress/internal/names":  "an address for each name of a session",
	"egress/internal/sock":   "what the kernel tells of a socket",
	"egress/internal/shell":  "SSH between a program and its server",
	"egress/internal/spares": "connections to servers for a session's next one",
	"egress/internal/window": "what happened lately, counted",
	"egress/internal/words":  "refusals as programs show them to their users",
	"egress/internal/wire":   "parsers of first bytes, which read what an enemy sent and so do nothing else",
	"git":                    "repositories of the guardian's own, which fetch and push",
	"guardian":               "routes and wiring",
	"guardian/commands":      "host commands since the guardian began",
	"guardian/events":        "what happened lately, for those who watch",
	"guardian/hostdesk":      "what a session wants to have run on the host, decided",
	"guardian/mcpdesk":       "what a session and its MCP servers say to each other, judged",
	"guardian/placeholders":  "what a session gets in place of its secrets",
	"guardian/ward":          "a session, as all who judge for it share it",
	"rulebook":               "the configuration on disk, compiled",
	"rulebook/drafts":        "the configuration's files, as the window changes them",
	"rulebook/explain":       "what a policy would say of one case, for the API",
	"rulebook/servers":       "the declared MCP servers with their pinned tools, for the API",
	"mcp":                    "frames, streams and pins of MCP",
	"oauth":                  "logins by device code and by browser",
	"panel":                  "the whole screen of approvals watch",
	"hostexec":               "rules, digest and run of host commands, and the caller inside",
	"internal/authority":     "one canonical spelling of a destination",
	"internal/certfile":      "certificates in a file",
	"internal/cgroup":        "processes that the kernel bounds and ends together",
	"internal/fieldname":     "HTTP field names as the most careless server reads them",
	"internal/override":      "what in a request names another method or path",
	"internal/durable":       "files that survive a crash",
	"internal/needs":         "what a test needs of its machine",
	"internal/hidden":        "a line of a terminal that is not shown",
	"internal/linediff":      "a text as changes to an older one",
	"internal/nearest":       "the nearest right word to a wrong one",
	"internal/passfd":        "descriptors over a unix socket",
	"internal/quick":         "names made and removed without a word to the scheduler",
	"internal/realpath":      "a path without symbolic links, by the kernel's word",
	"internal/peercred":      "who is at the other end of a unix socket",
	"internal/shellword":     "a command line as a shell reads it",
	"internal/termsafe":      "bytes that cannot steer a terminal",
	"internal/vscreen":       "the screen that a program's output draws",
	"internal/urlpath":       "one spelling of a request's path",
	"internal/xdg":           "the folders of one instance",
	"kernel":                 "facts about the host's kernel",
	"policy":                 "the judge",
	"policy/allowing":        "the words that would allow what was refused",
	"policy/cedartext":       "where in a Cedar file something is wrong, in a person's words",
	"policy/suggest":         "the rules that a policy lacks for what was seen",
	"sandbox":                "the contract of a driver",
	"sandbox/calls":          "the system calls that a payload may make",
	"sandbox/gate":           "what the only network of a cloister is made of",
	"sandbox/relay":          "between the caller's terminal and the cloister's own",
	"sandbox/docker":         "the driver of containers, by an engine's API",
	"sandbox/docker/inside":  "what runs in the containers before the command does",
	"sandbox/image":          "root file systems of OCI images, unpacked without an engine",
	"sandbox/native":         "the driver that needs nothing installed",
	"sandbox/sandboxtest":    "the meaning of a driver, as tests",
	"secret":                 "values that cannot be printed, placeholders, bindings",
	"secret/sigv4":           "signatures of requests to Amazon's services",
	"secret/sshkey":          "what logs in by SSH, outside",
	"secret/vault":           "the encrypted file of one user's secrets",
	"session":                "registry and shim",
	"session/terminal":       "one program's terminal, for several people's",
	"session/tally":          "the numbers of one session",
	"web":                    "the window's door and pages",
	"swap":                   "placeholders in requests become credentials, and back",
	"swap/unpack":            "content codings, undone within a bound of memory",
	"workspace":              "the plan of the view",
	"workspace/hostgit":      "git of the host, in a repository that an agent may have written to",
	"workspace/worktrees":    "the working trees of a project's branches",
	"workspace/stubs":        "absent names, held",
}

// sideways are the arrows between neighbours that the house lives with. It is a
// list of debts: it may shrink.
var sideways = map[string]string{
	"workspace → sandbox":             "a plan is written in the words of the Spec (HostPath, GuestPath, Bind, Protect): a second set of the same words would have to be kept equal",
	"sandbox/sandboxtest → workspace": "the suite holds a driver to the view that a real run gets, not to one of its own making",
}

// onlyFor are packages with a closed circle of readers.
var onlyFor = map[string]struct {
	readers []string
	why     string
}{
	"guardian":              {[]string{"cmd/cloister"}, "a room that imported the desk could reach every enforcer through it"},
	"sandbox/docker":        {[]string{"cmd/cloister"}, "a driver is chosen at the door; everyone else holds the contract"},
	"sandbox/native":        {[]string{"cmd/cloister"}, "a driver is chosen at the door; everyone else holds the contract"},
	"internal/needs":        {nil, "it imports testing; only tests read it"},
	"sandbox/sandboxtest":   {nil, "it imports testing; only tests read it"},
	"cmd/cloister/chromium": {nil, "it imports testing; only tests read it"},
}

// mayImportTesting are the packages outside _test.go files that may.
var mayImportTesting = map[string]string{
	"cmd/cloister/chromium": "a browser that two packages of tests drive, and nobody else",
	"internal/needs":        "what tests of all rooms ask of their machine",
	"sandbox/sandboxtest":   "the conformance suite is a library of tests that every driver runs",
}

// large are rooms over the size at which a room is split, with what they are
// and a size over which there is no more talk. Tables of data do not count.
var large = map[string]struct {
	lines int
	why   string
}{
	"config":         {3200, "one strict value: every key of every file is read and checked here, and nowhere else"},
	"bench":          {3500, "one file for each subject that is measured; nothing in one knows another; the client of all is the next to move out"},
	"cmd/cloister":   {8900, "one file for each noun; nothing in one file knows another"},
	"egress":         {6800, "DNS, tunnels, proxies, requests that are read, their edits and limits end in one path of judgement; the parsers moved to egress/internal/wire already"},
	"guardian":       {4700, "one route table and the wiring of every enforcer; what the window asks of this program is the next to move out"},
	"policy":         {5000, "the index, the Cedar text and the reader of Cedar files must decide alike; what Cedar says wrong of a text has moved out"},
	"escape/corpus":  {9800, "one file for each case; nothing in one knows another"},
	"workspace":      {2600, "project, plan, protected and closed paths end in one list of mounts"},
	"sandbox/docker": {2900, "containers, the engine's images and builds by it are one conversation with one engine; builds are the next to move out"},
	"sandbox/native": {5000, "one list of system calls, made here and executed here"},
}

const (
	fileTalk, fileMost = 500, 1000
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
			t.Errorf("%s: the binary is built from Go alone", name)
		}
	}
}

// Every start of the command initialises every package: three patterns, one of
// them with a counted repetition, once took half a millisecond of each.
func TestNoPatternIsCompiledAtStart(t *testing.T) {
	early := regexp.MustCompile(`(?m)^(var |\t)\w+ += regexp\.MustCompile\(`)
	for _, f := range files(t) {
		if f.test || strings.HasPrefix(f.name, "bench/") || strings.HasPrefix(f.name, "escape/") {
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

// roomOf gives the room of a package: its top folder.
func roomOf(dir string) string {
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
			return fs.SkipDir // another module, kept here with its reason
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
