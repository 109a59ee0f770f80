// Package drafts changes the files of the configuration on a person's behalf, in a
// window.
//
// Promise: what does not load in whole is not written; what someone else wrote
// meanwhile is not written over; a draft is reported with what would come of it.
//
// It puts nothing in force and records nothing: that is the guardian's, before the
// write and after it.
//
// Most readers want [Files].
package drafts

import (
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
	"cloister/config"
	"cloister/config/edit"
	"cloister/internal/authority"
	"cloister/internal/durable"
	"cloister/policyset"
	"cloister/policyset/explain"
)

// cedarName is a policy file that a person may make here.
var cedarName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^policy/[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\.cedar$`)
})

const configName = "config.yaml"

// Files are the files of one configuration.
type Files struct{ Policies *policyset.Holder }

// path is where a file of the configuration lies, by its name.
func (f Files) path(name string) (string, error) {
	if name != configName && !cedarName().MatchString(name) {
		return "", api.BadRequest("policy file %q: want config.yaml or policy/NAME.cedar", name)
	}
	return filepath.Join(f.Policies.Dir, filepath.FromSlash(name)), nil
}

// file is one of them as it is; without a text where there is none.
func (f Files) file(name string) (api.PolicyFile, error) {
	path, err := f.path(name)
	if err != nil {
		return api.PolicyFile{}, err
	}
	out := api.PolicyFile{Name: name, Path: path}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return out, fmt.Errorf("read policy file: %w", err)
	default:
		out.Text, out.Digest = string(text), config.Digest(text)
	}
	return out, nil
}

// List is what the configuration is made of. A file that cannot be read is listed
// without its text: the check tells why.
func (f Files) List() ([]api.PolicyFile, error) {
	names := []string{configName}
	found, err := filepath.Glob(filepath.Join(f.Policies.Dir, "policy", "*.cedar"))
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
		one, err := f.file(name)
		if err != nil {
			one.Text = ""
		}
		list = append(list, one)
	}
	return list, nil
}

// Check is what would become of a text in place of a file.
func (f Files) Check(name, text string) (api.PolicyCheck, error) {
	c, _, err := f.check(name, text)
	return c, err
}

// Ready says where a text may be written: it loads, and replaces what its author saw.
func (f Files) Ready(req api.PolicyDraft) (path string, err error) {
	now, err := f.file(req.Name)
	if err != nil {
		return "", err
	}
	if now.Digest != req.Base {
		return "", &api.Error{Status: http.StatusConflict, Code: api.CodeOver,
			Message: "save " + req.Name + ": it has changed meanwhile",
			Hints:   []string{"look at what it is now, and write your change into that"}}
	}
	_, err = f.Policies.With(map[string][]byte{now.Path: []byte(req.Text)})
	return now.Path, err
}

// Write writes a text that is Ready.
func Write(path string, req api.PolicyDraft) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("save %s: %w", req.Name, err)
	}
	// A link that a person made, into a repository of their settings, stays one.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := durable.WriteFile(path, []byte(req.Text), 0o600); err != nil {
		return fmt.Errorf("save %s: %w", req.Name, err)
	}
	return nil
}

// check is Check, with the policy set that would be in force.
func (f Files) check(name, text string) (api.PolicyCheck, *policyset.Set, error) {
	path, err := f.path(name)
	if err != nil {
		return api.PolicyCheck{}, nil, err
	}
	next, err := f.Policies.With(map[string][]byte{path: []byte(text)})
	if err != nil {
		// what is wrong is the answer
		return api.PolicyCheck{Problems: policyset.Problems(err), Residue: []string{}}, nil, nil
	}
	c := api.PolicyCheck{OK: true, Digest: next.Snapshot().Digest(),
		InForce: next.Snapshot().Digest() == f.Policies.Current().Snapshot().Digest(), Notices: next.Notices()}
	c.Statements, c.Residue = policyset.StatementsOf(next.Snapshot())
	return c, next, nil
}

// Rule writes a rule for what was seen into the text of config.yaml, and tells what
// would come of it. Nothing is saved.
func (f Files) Rule(req api.RuleDraft) (api.DraftedRule, error) {
	var none api.DraftedRule
	if !slices.Contains([]string{"allow", "ask", "deny"}, req.Effect) {
		return none, api.BadRequest("draft rule: effect %q: want allow, ask or deny", req.Effect)
	}
	port := req.Port
	if port == 0 {
		port = 443 // a name that was looked up, before any port
	}
	to, err := authority.ParseHostPort(fmt.Sprintf("%s:%d", bracketed(req.Host), port), port)
	if err != nil {
		return none, api.BadRequest("draft rule: %v", err)
	}
	d := edit.Draft{List: req.Effect, Domain: to.Host(), Method: req.Method, Path: req.Path}
	if req.Port != 80 && req.Port != 443 {
		d.Port = req.Port
	}
	if addr, ok := to.Addr(); ok {
		d.CIDR, d.Domain = true, fmt.Sprintf("%s/%d", addr, addr.BitLen())
	}
	file, err := f.file(configName)
	if err != nil {
		return none, err
	}
	after, err := edit.WithRule([]byte(file.Text), d)
	if err != nil {
		return none, &api.Error{Status: http.StatusUnprocessableEntity, Code: api.CodePolicy, Message: err.Error(),
			Hints: []string{"add the rule yourself, on the page Policy"}}
	}
	out := api.DraftedRule{Name: configName, Base: file.Digest, Before: file.Text, After: string(after)}
	check, next, err := f.check(configName, out.After)
	if err != nil {
		return none, err
	}
	out.Check = check
	q := api.ExplainRequest{Connect: to.String(), Method: req.Method, Path: req.Path}
	out.Now = explain.Destination(f.Policies.Current().Snapshot(), to, q)
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

// Words are what an editor completes with, but for hosts, which the record knows.
func Words() (api.PolicyWords, error) {
	out := api.PolicyWords{Keys: map[string][]string{}, Words: map[string][]string{}, Hosts: []string{},
		Cedar: slices.Concat(
			[]string{"permit", "forbid", "principal", "action", "resource", "when", "unless", "context", "in", "like", "has"},
			actionWords(), []string{`Dir::""`, `File::""`, `Host::""`, `MCP::Server::""`, `MCP::Tool::""`},
		)}
	var schema node
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		return out, fmt.Errorf("read the schema: %w", err)
	}
	schema.gather("", &out)
	return out, nil
}

func actionWords() []string {
	var out []string
	for _, a := range []string{"NetworkConnect", "HttpRequest", "HttpRewrite", "FileOpen", "FileOpenReadOnly",
		"FileOpenReadWrite", "ProcessExec", "McpCall", "HostExec", "SecretUse"} {
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
