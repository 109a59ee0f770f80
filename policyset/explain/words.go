package explain

import (
	"cmp"
	"encoding/json"
	"strings"

	"cloister/api"
	"cloister/internal/authority"
	"cloister/internal/hint"
	"cloister/policy"
	"cloister/secret/vault"
)

// Words are what a person types besides what is asked about: policy explain's flags.
type Words struct {
	Method, Arguments, Feature string
	Headers                    []string
}

// Question is what is asked in words and flags.
func (f *Words) Question(args []string) (api.ExplainRequest, error) {
	if len(args) == 2 && f.Method == "" {
		// As in a request line, and the other way round.
		for i, word := range args {
			if methodWord(word) {
				f.Method, args = word, args[1-i:2-i]
				break
			}
		}
	}
	call := args[0] == "mcp" && len(args) > 1
	if !call && f.Arguments+f.Feature != "" {
		return api.ExplainRequest{}, hint.Usage("cloister policy explain mcp SERVER NAME --arguments JSON",
			"policy explain: --arguments and --feature are of a call to an MCP server")
	}
	switch {
	case call && f.Method == "" && len(f.Headers) == 0:
		return f.question(args[1:])
	case call:
		return api.ExplainRequest{}, hint.Usage("leave out -X and -H",
			"policy explain: a call to an MCP server has no method and no headers")
	case args[0] == "secret" && len(args) == 3:
		if err := vault.CheckName(args[1]); err != nil {
			return api.ExplainRequest{}, hint.Usage("such as GITHUB_TOKEN", "policy explain: %v", err)
		}
		req, err := typedDestination(args[2], f.Method, f.Headers)
		req.Secret = args[1]
		return req, err
	case args[0] == "file" && len(args) > 1:
		opened := &api.ExplainFile{Path: args[len(args)-1]}
		if len(args) == 3 {
			opened.Use = args[1]
		}
		return api.ExplainRequest{File: opened}, nil
	case len(args) > 1:
		return api.ExplainRequest{},
			hint.Usage("one of HOST[:PORT], [METHOD] URL, mcp SERVER [NAME], secret NAME URL, file PATH",
				"policy explain: %q explains nothing", args[1])
	}
	req, err := typedDestination(args[0], f.Method, f.Headers)
	return req, err
}

// methodWord reports whether a word is a request's method, and no host.
func methodWord(word string) bool {
	return word != "" && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func (f *Words) question(args []string) (api.ExplainRequest, error) {
	call := &api.ExplainCall{Server: args[0], Feature: f.Feature}
	if len(args) > 1 {
		call.Name = args[1]
	}
	if f.Arguments != "" {
		var object map[string]any
		if err := json.Unmarshal([]byte(f.Arguments), &object); err != nil {
			return api.ExplainRequest{}, hint.Usage(`such as '{"path": "README.md"}'`,
				"policy explain: --arguments is no JSON object: %v", err)
		}
		call.Arguments = json.RawMessage(f.Arguments)
	}
	return api.ExplainRequest{MCP: call}, nil
}

// typedDestination reads what is to be explained: HOST[:PORT], which is a connection
// unless a method is named, or a URL.
func typedDestination(text, method string, headers []string) (api.ExplainRequest, error) {
	req := api.ExplainRequest{Method: method, Path: "/", Headers: headers}
	host, implied := text, uint16(443)
	if scheme, rest, isURL := strings.Cut(text, "://"); isURL {
		switch strings.ToLower(scheme) {
		case "https":
		case "http":
			implied = 80
		case "ssh", "postgres", "postgresql":
			return typedLogin(strings.ToLower(scheme), rest, method, headers)
		default:
			return req, hint.Usage("what is read is http, https, ssh and postgres", "policy explain: the scheme %q", scheme)
		}
		if req.Method == "" {
			req.Method = "GET"
		}
		rest, _, _ = strings.Cut(rest, "#")
		host = rest
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			host, req.Path = rest[:i], rest[i:]
		}
		req.Path, req.Query, _ = strings.Cut(req.Path, "?")
		if req.Path == "" {
			req.Path = "/"
		}
	}
	if req.Method != "" && !isToken(req.Method) {
		return req, hint.Usage("such as GET, HEAD or POST", "policy explain: %q is no method", req.Method)
	}
	for _, h := range headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || name == "" {
			return req, hint.Usage("-H 'NAME: VALUE'", "policy explain: %q is no header", h)
		}
	}
	if len(headers) > 0 && req.Method == "" {
		return req, hint.Usage("name a URL, or --method", "policy explain: a connection has no headers")
	}
	to, err := authority.ParseHostPort(host, implied)
	if err != nil {
		return req, hint.Usage("write HOST, HOST:PORT or a URL, such as https://api.example.com/repos", "policy explain: %v",
			err)
	}
	req.Connect = to.String()
	return req, nil
}

// typedLogin reads USER@HOST[:PORT]/PATH: of ssh a repository of git's, of postgres
// a database.
func typedLogin(scheme, rest, method string, headers []string) (api.ExplainRequest, error) {
	var req api.ExplainRequest
	scheme = strings.TrimSuffix(scheme, "ql")
	user, rest, ok := strings.Cut(rest, "@")
	if !ok || user == "" {
		return req, hint.Usage("such as "+scheme+"://USER@HOST/PATH", "policy explain: a login has a user")
	}
	if len(headers) > 0 {
		return req, hint.Usage("", "policy explain: a login has no headers")
	}
	host, path, _ := strings.Cut(rest, "/")
	login := &api.LoginRequest{Protocol: scheme, User: user}
	switch {
	case scheme == policy.Postgres && method == "":
		login.Database = cmp.Or(path, user) // as the server has it
	case scheme == policy.SSH && (method == "" || path != "" && (method == policy.GitFetch || method == policy.GitPush)):
		if path != "" {
			login.Repository = "/" + path // as git sends it
		}
		login.Push = method == policy.GitPush
	default:
		return req, hint.Usage("with ssh and a repository: fetch or push", "policy explain: the method %q of a login", method)
	}
	to, err := authority.ParseHostPort(host, policy.Protocols()[scheme])
	if err != nil {
		return req, hint.Usage("write ssh://USER@HOST/REPOSITORY or postgres://USER@HOST/DATABASE", "policy explain: %v", err)
	}
	req.Connect, req.Login = to.String(), login
	return req, nil
}

// isToken reports whether a word can be a method (RFC 9110, 5.6.2).
func isToken(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
