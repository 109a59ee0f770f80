// Package leashtest holds our decisions about Leash's policies against cedar-go's.
//
// Each text is asked about everything that it names and what lies beside that: files,
// programs, connections, calls to MCP servers, headers. What differs has a reason, which
// docs/coming-from-leash.md lists, and the two are held to each other.
//
// Leash's own texts are read of a checkout that CLOISTER_LEASH names; none of them is here.
package leashtest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cloister/internal/authority"
	"cloister/internal/realpath"
	"cloister/policy"
	"cloister/policy/fileverdict"
)

const page = "../../docs/coming-from-leash.md"

// tb is a test, or a property.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// A trial is one text with what both make of it.
type trial struct {
	text     string
	oracle   *cedar.PolicySet // of the text as it is
	equal    *cedar.PolicySet // of the text with each == of a folder or host read as in
	snapshot *policy.Snapshot
	literals []types.EntityUID
	person   types.EntityUID
	seen     map[string]string // differences, each with its first witness
}

var (
	literalText = regexp.MustCompile(`([A-Z]\w*(?:::[A-Z]\w*)*)::"([^"\n]+)"`)
	equalText   = regexp.MustCompile(`resource\s*==\s*((?:\w+::)*(?:Dir|Directory|Host|Hostname|DnsZone|Endpoint|Server)::")`)
)

func newTrial(text string) (*trial, error) {
	x := &trial{text: text, seen: map[string]string{}, person: types.NewEntityUID("User", "anyone")}
	for _, m := range literalText.FindAllStringSubmatch(text, -1) {
		u := types.NewEntityUID(types.EntityType(m[1]), types.String(m[2]))
		if u.Type == "User" {
			x.person = u // every text of Leash's names one
		}
		if !slices.Contains(x.literals, u) {
			x.literals = append(x.literals, u)
		}
	}
	in := policy.Input{Unlisted: policy.Deny, Cedar: []policy.CedarFile{{Name: "leash.cedar", Text: []byte(text)}}}
	for _, name := range x.named("Server") {
		to, err := authority.Parse(name, 443)
		if err != nil {
			return nil, err
		}
		in.Servers = append(in.Servers, policy.MCPServer{Name: name, Authority: to})
	}
	var err error
	if x.snapshot, err = policy.Compile(in); err != nil {
		return nil, err
	}
	if x.oracle, err = cedar.NewPolicySetFromBytes("leash", []byte(text)); err != nil {
		return nil, err
	}
	x.equal, err = cedar.NewPolicySetFromBytes("leash", []byte(equalText.ReplaceAllString(text, "resource in $1")))
	return x, err
}

// named are the literals of a type, under any of the names that Leash has for it.
func (x *trial) named(kinds ...string) []string {
	var out []string
	for _, u := range x.literals {
		if slices.Contains(kinds, path.Base(strings.ReplaceAll(string(u.Type), "::", "/"))) {
			out = append(out, string(u.ID))
		}
	}
	return out
}

// parents are the literals that a resource is in.
func (x *trial) parents(self types.EntityUID, in func(kind, id string) bool) types.EntityMap {
	var out []types.EntityUID
	for _, u := range x.literals {
		if u != self && in(path.Base(strings.ReplaceAll(string(u.Type), "::", "/")), string(u.ID)) {
			out = append(out, u)
		}
	}
	return types.EntityMap{self: {UID: self, Parents: types.NewEntityUIDSet(out...)}}
}

// cedarSays is Cedar's decision over several actions that one use could be called: a forbid
// of any of them refuses it, a permit of any permits it.
func (x *trial) cedarSays(set *cedar.PolicySet, self types.EntityUID, in types.EntityMap, context types.RecordMap, actions ...string) bool {
	allowed := false
	for _, a := range actions {
		decision, d := cedar.Authorize(set, in, cedar.Request{
			Principal: x.person, Action: types.NewEntityUID("Action", types.String(a)), Resource: self, Context: types.NewRecord(context),
		})
		if decision == cedar.Deny && len(d.Reasons) > 0 {
			return false
		}
		allowed = allowed || decision == cedar.Allow
	}
	return allowed
}

// compare notes a difference by the reason that why finds.
func (x *trial) compare(t tb, what string, ours, theirs, equal bool, why func() string) {
	t.Helper()
	if ours == theirs {
		return
	}
	id := "E1"
	if ours != equal {
		id = why()
	}
	if id == "" {
		t.Fatalf("%s: ours %t, Cedar %t, for no known reason, by\n%s", what, ours, theirs, x.text)
	}
	if x.seen[id] == "" {
		x.seen[id] = what
	}
}

// all asks about everything that a text names.
func (x *trial) all(t tb) {
	x.files(t)
	x.connections(t)
	x.calls(t)
	x.headers(t)
}

func (x *trial) files(t tb) {
	paths := []string{"/etc/passwd", "/usr/bin/env", "/proc/version", "/home/a/b"}
	for _, name := range x.named("File", "Dir", "Directory") {
		name = path.Clean(name)
		paths = append(paths, name, path.Join(name, "below"), path.Join(name, "far/below"), path.Dir(name), name+"x")
	}
	if len(paths) == 4 {
		return
	}
	list := x.snapshot.Statements()
	for _, at := range paths {
		self := types.NewEntityUID("File", types.String(at))
		in := x.parents(self, func(kind, id string) bool {
			id = path.Clean(id)
			return kind == "File" && id == at || (kind == "Dir" || kind == "Directory") && realpath.Inside(at, id)
		})
		for use, actions := range map[fileverdict.Use][]string{
			fileverdict.Read: {"FileOpen", "FileOpenReadOnly"}, fileverdict.Write: {"FileOpen", "FileOpenReadWrite"}, fileverdict.Execute: {"ProcessExec"},
		} {
			v := fileverdict.Of(list, at, use)
			says := func(set *cedar.PolicySet) bool { return x.cedarSays(set, self, in, nil, actions...) }
			x.compare(t, use.String()+" "+at, v.Effect == policy.Allow, says(x.oracle), says(x.equal), func() string { return whyFile(list, v, at, use, actions) })
		}
	}
}

func whyFile(list []policy.Statement, v fileverdict.Outcome, at string, use fileverdict.Use, actions []string) string {
	var by policy.Statement
	if i := slices.IndexFunc(list, func(st policy.Statement) bool { return v.Rule != "" && st.Rule == v.Rule }); i >= 0 {
		by = list[i]
	}
	speaks := slices.ContainsFunc(by.Actions, func(a string) bool { return slices.Contains(actions, a) })
	lists := fileverdict.ListsOf(list)
	asks := slices.ContainsFunc(list, func(st policy.Statement) bool { return st.Effect == policy.Ask })
	unkept := slices.ContainsFunc(list, func(st policy.Statement) bool { return st.Effect != policy.Ask && fileverdict.Unkept(st, use) != "" })
	switch {
	case slices.ContainsFunc([]string{"/dev", "/proc", "/.cloister"}, func(own string) bool { return realpath.Inside(at, own) }):
		return "F6"
	case by.Effect == policy.Deny && by.Rule != "" && !speaks:
		return "F2"
	case by.Effect == policy.Deny && by.Rule != "" && slices.ContainsFunc(by.Closed, func(p policy.ClosedPath) bool { return !p.Dir && p.Path != at && realpath.Inside(at, p.Path) }):
		return "F8"
	case v.Effect == policy.Allow && by.Rule != "" && !speaks && slices.Contains(by.Actions, "FileOpenReadWrite"):
		return "F3"
	case v.Effect == policy.Allow && by.Rule != "" && !speaks && slices.Contains(by.Actions, "ProcessExec"):
		return "F4"
	case v.Effect == policy.Deny && use == fileverdict.Execute && lists.Opens && strings.Contains(v.Reason, "reads what it executes"):
		return "F5"
	case v.Effect == policy.Deny && asks:
		return "F9"
	case unkept:
		return "F7"
	case v.Effect == policy.Allow && by.Rule == "":
		return "F1"
	}
	return ""
}

func (x *trial) connections(t tb) {
	hosts, ports := []string{"elsewhere.example"}, []uint16{443, 80, 8443}
	for _, name := range x.named("Host", "Hostname", "DnsZone", "Endpoint", "Server") {
		host, port, ok := strings.Cut(name, ":")
		if n, err := strconv.ParseUint(port, 10, 16); ok && err == nil {
			ports = append(ports, uint16(n))
		}
		host = strings.TrimPrefix(host, "*.")
		hosts = append(hosts, host, "sub."+host)
	}
	if len(hosts) == 1 && !strings.Contains(x.text, "NetworkConnect") {
		return
	}
	for _, m := range regexp.MustCompile(`hostname\s*(?:like|==)\s*"(?:\*\.)?([^"]+)"`).FindAllStringSubmatch(x.text, -1) {
		hosts = append(hosts, m[1], "sub."+m[1])
	}
	for _, host := range hosts {
		for _, port := range ports {
			to, err := authority.Parse(host, port)
			if err != nil {
				continue // no destination has such a name
			}
			self := types.NewEntityUID("Host", types.String(to.Host()))
			in := x.parents(self, func(kind, id string) bool {
				zone := strings.TrimPrefix(id, "*.")
				name, at, ported := strings.Cut(strings.ToLower(id), ":")
				name = strings.TrimSuffix(name, ".")
				fits := name == "*" || name == to.Host() || strings.HasPrefix(name, "*.") && strings.HasSuffix(to.Host(), name[1:])
				switch kind {
				case "DnsZone":
					return strings.HasSuffix(to.Host(), "."+zone)
				case "Host", "Hostname", "Endpoint":
					return fits && (!ported || at == strconv.Itoa(int(port)))
				}
				return false
			})
			v := policy.Decide(x.snapshot, policy.Request{Action: policy.NetworkConnect, Authority: to})
			says := func(set *cedar.PolicySet) bool {
				return x.cedarSays(set, self, in, types.RecordMap{"hostname": types.String(to.Host()), "port": types.Long(port)}, "NetworkConnect")
			}
			x.compare(t, "connect "+to.String(), v.Effect == policy.Allow, says(x.oracle), says(x.equal), func() string { return x.whyConnect(v, port) })
		}
	}
}

func (x *trial) whyConnect(v policy.Verdict, port uint16) string {
	i := slices.IndexFunc(x.snapshot.Statements(), func(st policy.Statement) bool { return st.Rule == v.Rule })
	switch {
	case v.Effect == policy.Deny && i >= 0 && slices.Contains(x.snapshot.Statements()[i].Actions, "McpCall"):
		return "N2"
	case v.Effect == policy.Deny && port != 443 && port != 80:
		return "N1"
	}
	return ""
}

func (x *trial) calls(t tb) {
	for _, server := range x.snapshot.MCPServers() {
		for _, tool := range append(x.named("Tool"), "no-such-tool") {
			self := types.NewEntityUID("MCP::Tool", types.String(tool))
			in := x.parents(self, func(kind, id string) bool { return kind == "Server" && id == server.Name })
			v := policy.Decide(x.snapshot, policy.Request{
				Action: policy.McpCall, Authority: server.Authority, MCP: &policy.MCPCall{Server: server.Name, Feature: policy.Tool, Name: tool},
			})
			says := func(set *cedar.PolicySet) bool { return x.cedarSays(set, self, in, nil, "McpCall") }
			x.compare(t, "call "+tool+" of "+server.Name, v.Effect == policy.Allow, says(x.oracle), says(x.equal), func() string { return "" })
		}
	}
}

func (x *trial) headers(t tb) {
	pair := regexp.MustCompile(`(?s)context\.header\s*==\s*"([^"]+)"\s*&&\s*context\.value\s*==\s*"([^"]*)"`)
	in := policy.Input{Unlisted: policy.Deny, Cedar: []policy.CedarFile{{Name: "leash.cedar", Text: []byte(x.text)}}}
	for _, host := range x.named("Host", "Hostname") {
		if _, err := authority.Parse(host, 443); err == nil {
			in.Rules = append(in.Rules, policy.Rule{Effect: policy.Allow, Domain: host})
		}
	}
	pairs := pair.FindAllStringSubmatch(x.text, -1)
	if len(pairs) == 0 {
		return
	}
	s, err := policy.Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range in.Rules {
		to, err := authority.Parse(rule.Domain, 443)
		if err != nil {
			t.Fatal(err)
		}
		v := policy.Decide(s, policy.Request{Action: policy.HTTPRequest, Authority: to, HTTP: policy.HTTP{Method: "GET"}})
		if v.Effect != policy.Allow {
			continue // a forbid of the same text
		}
		for _, m := range pairs {
			header, value := m[1], m[2]
			sets := func(same func(policy.Rewrite) bool) bool { return slices.ContainsFunc(v.Rewrites, same) }
			ours := sets(func(r policy.Rewrite) bool { return strings.EqualFold(r.Header, header) && r.Value == value })
			self := types.NewEntityUID("Host", types.String(to.Host()))
			context := types.RecordMap{"header": types.String(header), "value": types.String(value), "hostname": types.String(to.Host())}
			says := func(set *cedar.PolicySet) bool {
				return x.cedarSays(set, self, types.EntityMap{self: {UID: self}}, context, "HttpRewrite")
			}
			x.compare(t, "set "+header+" at "+to.String(), ours, says(x.oracle), says(x.equal), func() string {
				if sets(func(r policy.Rewrite) bool { return strings.EqualFold(r.Header, header) && r.Value != value }) {
					return "H1"
				}
				return ""
			})
		}
	}
}

// Policies of our own, of each kind that Leash's documents have, and the table of what differs.
func TestDecisions(t *testing.T) {
	witnessed := map[string]string{}
	files, err := filepath.Glob("testdata/*.cedar")
	if err != nil || len(files) < 5 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, name := range append(files, "../testdata/leash.cedar") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		x, err := newTrial(string(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		x.all(t)
		for id, what := range x.seen {
			witnessed[id] = cmp.Or(witnessed[id], what+", by "+filepath.Base(name))
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var listed, found []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]\d) \|`).FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, m[1])
	}
	for id, what := range witnessed {
		found = append(found, id)
		t.Logf("%s: %s", id, what)
	}
	slices.Sort(found)
	slices.Sort(listed)
	if diff := gocmp.Diff(listed, found); diff != "" {
		t.Errorf("what %s lists, and what differs: %s", filepath.Base(page), diff)
	}
}

// A User is everyone, and it is said.
func TestUser(t *testing.T) {
	for _, head := range []string{`principal == User::"a"`, `principal in User::"a"`, "principal is User", `principal is User in User::"a"`} {
		s, err := policy.Compile(policy.Input{Unlisted: policy.Ask, Cedar: []policy.CedarFile{{Name: "u.cedar", Text: []byte(
			"forbid (" + head + `, action == Action::"NetworkConnect", resource == Host::"a.test");`)}}})
		if err != nil {
			t.Fatalf("%s: %v", head, err)
		}
		to, err := authority.Parse("a.test", 443)
		if err != nil {
			t.Fatal(err)
		}
		if v := policy.Decide(s, policy.Request{Action: policy.NetworkConnect, Authority: to, Session: "s", Agent: "b"}); v.Effect != policy.Deny {
			t.Errorf("%s: %+v", head, v)
		}
		if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0].Msg, "every session") || w[0].Origin.Line != 1 {
			t.Errorf("%s: %+v", head, w)
		}
	}
}

// Generated policies of Leash's kind: nothing differs but for the reasons that are known.
func TestGenerated(t *testing.T) {
	one := func(rt *rapid.T, words ...string) string { return rapid.SampledFrom(words).Draw(rt, "word") }
	rapid.Check(t, func(rt *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(1, 8).Draw(rt, "statements") {
			effect, who := one(rt, "permit", "permit", "forbid"), one(rt, "principal", `principal == User::"a"`)
			action, resources := "", []string{}
			switch one(rt, "open", "open", "execute", "connect", "call") {
			case "open":
				action = one(rt, `action == Action::"FileOpen"`, `action == Action::"FileOpenReadOnly"`, `action == Action::"FileOpenReadWrite"`,
					`action in [Action::"FileOpen", Action::"FileOpenReadOnly"]`)
				resources = []string{`Dir::"/a/"`, `Dir::"/a/b"`, `File::"/a/b/c"`, `File::"/usr/bin/x"`, `Dir::"/"`, `Fs::Directory::"/usr"`}
			case "execute":
				action = `action == Action::"ProcessExec"`
				resources = []string{`Dir::"/usr/bin/"`, `File::"/usr/bin/x"`, `File::"/a/b/c"`}
			case "connect":
				action = `action == Action::"NetworkConnect"`
				resources = []string{`Host::"a.test"`, `Host::"*.a.test"`, `Host::"a.test:8443"`, `Host::"b.test:22"`, `Host::"*"`, `Net::DnsZone::"a.test"`}
			case "call":
				action = `action == Action::"McpCall"`
				resources = []string{`MCP::Server::"mcp.test"`, `MCP::Tool::"run"`, `MCP::Tool::"read"`}
			}
			some := rapid.SliceOfNDistinct(rapid.SampledFrom(resources), 1, 3, rapid.ID).Draw(rt, "resources")
			if len(some) == 1 && rapid.Bool().Draw(rt, "in the head") {
				fmt.Fprintf(&text, "%s (%s, %s, resource == %s);\n", effect, who, action, some[0])
				continue
			}
			fmt.Fprintf(&text, "%s (%s, %s, resource) when { resource in [%s] };\n", effect, who, action, strings.Join(some, ", "))
		}
		x, err := newTrial(text.String())
		if err != nil {
			rt.Fatalf("%v\n%s", err, text.String())
		}
		x.all(rt)
	})
}

// refused are Leash's texts that do not load, by what is wrong with them: Leash's own parser or
// linter refuses each of them too.
var refused = []string{
	"found \"<\"",                // a mark where a cursor is
	"found the end of the file",  // a missing semicolon
	"unknown action \"Delete\"",  // that its linter is tried with
	"a star stands only",         // a wildcard that its linter is tried with
	"\"ProcessLaunch\"",          // an action that it tries a completion with
	"an empty set",               // the same
	"has '<'",                    // a mark where a cursor is
	"percent sign",               // a text with places to fill in
	"found \"missingVar\"",       // a variable that its parser is tried with
	"expected permit or forbid,", // Go between two texts
}

// TestPublished: Leash's own published policies load, or are refused as Leash refuses them, and
// are decided alike but for the reasons that are known.
func TestPublished(t *testing.T) {
	root := os.Getenv("CLOISTER_LEASH")
	if root == "" {
		t.Skip("a checkout of Leash: CLOISTER_LEASH")
	}
	blocks := map[string]*regexp.Regexp{
		".md": regexp.MustCompile("(?s)```cedar\n(.*?)```"), ".go": regexp.MustCompile("(?s)`([^`]*(?:permit|forbid)\\s*\\([^`]*)`"),
		".cedar": regexp.MustCompile(`(?s)(.*)`),
	}
	loaded, not, seen := 0, 0, map[string]string{}
	err := filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		block := blocks[filepath.Ext(name)]
		if err != nil || block == nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[1], "Action::") {
				continue
			}
			x, err := newTrial(m[1])
			if err != nil {
				not++
				if !slices.ContainsFunc(refused, func(why string) bool { return strings.Contains(err.Error(), why) }) {
					t.Errorf("%s: %v\n%s", name, err, m[1])
				}
				continue
			}
			loaded++
			x.all(t)
			maps.Copy(seen, x.seen)
		}
		return nil
	})
	if err != nil || loaded < 60 {
		t.Fatalf("%d texts, %v", loaded, err)
	}
	t.Logf("%d texts load, %d do not; what differs: %v", loaded, not, seen)
}
