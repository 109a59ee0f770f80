package guardian

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cloister/api"
	"cloister/audit"
	"cloister/config"
	"cloister/internal/authority"
	"cloister/internal/durable"
	"cloister/policy"
	"cloister/rulebook"
	"cloister/rulebook/explain"
)

// cedarName is a policy file that a person may make here.
var cedarName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^policy/[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\.cedar$`) })

const configName = "config.yaml"

// policyPath is where a file of the configuration lies, by its name.
func (g *guardian) policyPath(name string) (string, error) {
	if name != configName && !cedarName().MatchString(name) {
		return "", badRequest("policy file %q: want config.yaml or policy/NAME.cedar", name)
	}
	return filepath.Join(g.policies.Dir, filepath.FromSlash(name)), nil
}

func (g *guardian) policyFile(name string) (api.PolicyFile, error) {
	path, err := g.policyPath(name)
	if err != nil {
		return api.PolicyFile{}, err
	}
	f := api.PolicyFile{Name: name, Path: path}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return f, fmt.Errorf("read policy file: %w", err)
	default:
		f.Text, f.Digest = string(text), config.Digest(text)
	}
	return f, nil
}

// getPolicyFiles lists what the configuration is made of. A file that cannot be
// read is listed without its text: the check tells why.
func (g *guardian) getPolicyFiles(http.ResponseWriter, *http.Request) (any, error) {
	names := []string{configName}
	found, err := filepath.Glob(filepath.Join(g.policies.Dir, "policy", "*.cedar"))
	if err != nil {
		return nil, fmt.Errorf("list policy files: %w", err)
	}
	for _, path := range found {
		if name := "policy/" + filepath.Base(path); cedarName().MatchString(name) {
			names = append(names, name)
		}
	}
	list := []api.PolicyFile{}
	for _, name := range names {
		f, err := g.policyFile(name)
		if err != nil {
			f.Text = ""
		}
		list = append(list, f)
	}
	return list, nil
}

// checkDraft is what would become of a text in place of a file.
func (g *guardian) checkDraft(name, text string) (api.PolicyCheck, *rulebook.Book, error) {
	path, err := g.policyPath(name)
	if err != nil {
		return api.PolicyCheck{}, nil, err
	}
	next, err := rulebook.LoadWith(g.policies.Dir, g.policies.Home, map[string][]byte{path: []byte(text)})
	if err != nil {
		return api.PolicyCheck{Problems: rulebook.Problems(err), Residue: []string{}}, nil, nil //nolint:nilerr // what is wrong is the answer
	}
	c := api.PolicyCheck{OK: true, Digest: next.Snapshot().Digest(), InForce: next.Snapshot().Digest() == g.policies.Current().Snapshot().Digest(), Notices: next.Notices()}
	c.Statements, c.Residue = rulebook.StatementsOf(next.Snapshot())
	return c, next, nil
}

func (g *guardian) postPolicyDraft(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.PolicyDraft](r)
	if err != nil {
		return nil, err
	}
	c, _, err := g.checkDraft(req.Name, req.Text)
	return c, err
}

// postPolicyFile writes a file that was checked, and puts it in force.
func (g *guardian) postPolicyFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.PolicyDraft](r)
	if err != nil {
		return nil, err
	}
	now, err := g.policyFile(req.Name)
	if err != nil {
		return nil, err
	}
	if now.Digest != req.Base {
		return nil, &api.Error{Status: http.StatusConflict, Code: api.CodeOver, Message: "save " + req.Name + ": it has changed meanwhile", Hints: []string{"look at what it is now, and write your change into that"}}
	}
	path := now.Path
	if _, err := rulebook.LoadWith(g.policies.Dir, g.policies.Home, map[string][]byte{path: []byte(req.Text)}); err != nil {
		return nil, err // nothing is saved
	}
	if err := g.recordSave(r, path, req.Text); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("save %s: %w", req.Name, err)
	}
	// A link that a person made, into a repository of their settings, stays one.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := durable.WriteFile(path, []byte(req.Text), 0o600); err != nil {
		return nil, fmt.Errorf("save %s: %w", req.Name, err)
	}
	return g.reload(r.Context())
}

// recordSave tells the record who saves what, before it is done: what cannot be
// recorded is not saved.
func (g *guardian) recordSave(r *http.Request, path, text string) error {
	if err := g.records.Append(context.WithoutCancel(r.Context()), audit.Event{
		Kind: audit.PolicyLoad, Action: "save", Resource: path, Verdict: policy.Allow.String(),
		Reason: "a person said so: " + whoAnswers(r, ""), Digest: config.Digest([]byte(text)), Policy: g.policies.Current().Snapshot().Digest(),
	}); err != nil {
		return &api.Error{
			Status: http.StatusServiceUnavailable, Code: api.CodeUnrecorded, Message: "save: it could not be recorded, so it is not saved: " + err.Error(),
			Hints: []string{"see: cloister guardian status, cloister audit verify"},
		}
	}
	return nil
}

// postRuleDraft writes a rule for what was seen into the text of config.yaml, and
// tells what would come of it. Nothing is saved.
func (g *guardian) postRuleDraft(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.RuleDraft](r)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"allow", "ask", "deny"}, req.Effect) {
		return nil, badRequest("draft rule: effect %q: want allow, ask or deny", req.Effect)
	}
	port := req.Port
	if port == 0 {
		port = 443 // a name that was looked up, before any port
	}
	to, err := authority.ParseHostPort(fmt.Sprintf("%s:%d", bracketed(req.Host), port), port)
	if err != nil {
		return nil, badRequest("draft rule: %v", err)
	}
	d := config.Draft{List: req.Effect, Domain: to.Host(), Method: req.Method, Path: req.Path}
	if req.Port != 80 && req.Port != 443 {
		d.Port = req.Port
	}
	if addr, ok := to.Addr(); ok {
		d.CIDR, d.Domain = true, fmt.Sprintf("%s/%d", addr, addr.BitLen())
	}
	file, err := g.policyFile(configName)
	if err != nil {
		return nil, err
	}
	after, err := config.WithRule([]byte(file.Text), d)
	if err != nil {
		return nil, &api.Error{Status: http.StatusUnprocessableEntity, Code: api.CodePolicy, Message: err.Error(), Hints: []string{"add the rule yourself, on the page Policy"}}
	}
	out := api.DraftedRule{Name: configName, Base: file.Digest, Before: file.Text, After: string(after)}
	check, next, err := g.checkDraft(configName, out.After)
	if err != nil {
		return nil, err
	}
	out.Check = check
	q := api.ExplainRequest{Connect: to.String(), Method: req.Method, Path: req.Path}
	out.Now = explain.Destination(g.policies.Current().Snapshot(), to, q)
	if next != nil {
		out.Then = explain.Destination(next.Snapshot(), to, q)
	}
	return out, nil
}

func bracketed(host string) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return "[" + host + "]"
	}
	return host
}

// maxSeen is how many destinations an editor is told.
const maxSeen = 300

// getPolicyWords gives an editor what it completes with.
func (g *guardian) getPolicyWords(http.ResponseWriter, *http.Request) (any, error) {
	out := api.PolicyWords{Keys: map[string][]string{}, Words: map[string][]string{}, Hosts: []string{}, Cedar: slices.Concat(
		[]string{"permit", "forbid", "principal", "action", "resource", "when", "unless", "context", "in", "like", "has"},
		actionWords(), []string{`Dir::""`, `File::""`, `Host::""`, `MCP::Server::""`, `MCP::Tool::""`},
	)}
	var schema node
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	schema.gather("", &out)
	looked := 0
	for e, err := range audit.Back(AuditDir(g.o.Dirs), audit.Filter{}) {
		if looked++; looked > 20_000 || len(out.Hosts) == maxSeen {
			break
		}
		if err == nil && e.Host != "" && !slices.Contains(out.Hosts, e.Host) {
			out.Hosts = append(out.Hosts, e.Host)
		}
	}
	return out, nil
}

func actionWords() []string {
	var out []string
	for _, a := range []string{"NetworkConnect", "HttpRequest", "HttpRewrite", "FileOpen", "FileOpenReadOnly", "FileOpenReadWrite", "ProcessExec", "McpCall", "HostExec", "SecretUse"} {
		out = append(out, `Action::"`+a+`"`)
	}
	return out
}

// node is what of a JSON Schema an editor needs.
type node struct {
	Properties map[string]node `json:"properties"`
	Items      *node           `json:"items"`
	Additional json.RawMessage `json:"additionalProperties"`
	Enum       []any           `json:"enum"`
}

func (n node) gather(path string, out *api.PolicyWords) {
	if len(n.Properties) > 0 {
		out.Keys[path] = slices.Sorted(maps.Keys(n.Properties))
	}
	for _, w := range n.Enum {
		if s, ok := w.(string); ok {
			out.Words[path] = append(out.Words[path], s)
		}
	}
	for key, below := range n.Properties {
		below.gather(strings.TrimPrefix(path+"."+key, "."), out)
	}
	if n.Items != nil {
		n.Items.gather(path+"[]", out)
	}
	var more node
	if len(n.Additional) > 0 && json.Unmarshal(n.Additional, &more) == nil {
		more.gather(path+".*", out)
	}
}
