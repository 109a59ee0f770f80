package acp

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// passed are the methods of an editor that are passed on. What an editor sends by others,
// such as the files that are open in it, stays outside.
var passed = map[string]bool{
	"initialize": true, "authenticate": true, "logout": true, "$/cancel_request": true,
	"session/new": true, "session/load": true, "session/resume": true, "session/fork": true,
	"session/prompt": true, "session/cancel": true, "session/list": true, "session/close": true, "session/delete": true,
	"session/set_mode": true, "session/set_model": true, "session/set_config_option": true, "session/set_title": true,
}

// opening are those that begin a session, with a folder and MCP servers.
var opening = map[string]bool{"session/new": true, "session/load": true, "session/resume": true, "session/fork": true}

// fromEditor passes on what the editor sends. An error ends the relay of the editor.
func (r *relay) fromEditor(m message) error {
	if m.Method == "" {
		if _, ok := r.settle(r.asking, m); !ok {
			r.notice("left out an answer of the editor to no request")
			return nil
		}
		return r.agent.send(answered(m))
	}
	if !passed[m.Method] {
		if m.ID == nil {
			r.notice("left out %s, which is not passed on to an agent", m.Method)
			return nil
		}
		return r.editor.send(refusal(m.ID, codeNoMethod, "%s is not passed on to an agent in a cloister", m.Method))
	}
	params, why := r.toAgent(m.Method, object(m.Params))
	if why == "" && m.ID != nil {
		if err := r.note(r.asked, m); err != nil {
			why = err.Error()
		}
	}
	switch {
	case why == "":
		return r.agent.send(message{Version: "2.0", ID: m.ID, Method: m.Method, Params: params})
	case m.ID == nil:
		r.notice("left out %s: %s", m.Method, why)
		return nil
	}
	return r.editor.send(refusal(m.ID, codeParams, "%s", why))
}

// toAgent gives the params of a message as the agent gets them, or why it gets none.
func (r *relay) toAgent(method string, params map[string]any) (out map[string]any, why string) {
	if params == nil {
		params = map[string]any{}
	}
	switch {
	case method == "initialize":
		return initialize(params)
	case method == "authenticate":
		delete(params, "_meta") // some carry credentials there, and a cloister gets its own by cloister secret
	case method == "session/prompt":
		params["prompt"] = r.prompt(list(params["prompt"]))
	case opening[method]:
		return params, r.open(params)
	case method == "session/list" && params["cwd"] != nil:
		at, ok := r.within(text(params["cwd"]))
		if !ok {
			return nil, "the folder is not in the project of this cloister"
		}
		params["cwd"] = at
	case method == "$/cancel_request":
		raw, err := json.Marshal(params["requestId"])
		if err != nil {
			return nil, "it names no request"
		}
		id, err := readID(raw)
		if err != nil {
			return nil, "it names no request"
		}
		return map[string]any{"requestId": id}, ""
	}
	return params, ""
}

// answered is an answer as the other end gets it.
func answered(m message) any {
	if m.Error != nil {
		return message{Version: "2.0", ID: m.ID, Error: m.Error}
	}
	return response(m.ID, m.Result)
}

// version is that of the protocol which this package knows.
const version = "1"

// initialize is what the agent gets to know of the editor: its name, and of what it can do
// only what gives no power over the host.
func initialize(params map[string]any) (map[string]any, string) {
	if n, ok := params["protocolVersion"].(json.Number); !ok || n == "0" || strings.ContainsAny(string(n), "-.eE") {
		return nil, fmt.Sprintf("the editor offers no version %s of the protocol", version)
	}
	out := map[string]any{"protocolVersion": json.Number(version)}
	if info := object(params["clientInfo"]); info != nil {
		delete(info, "_meta")
		out["clientInfo"] = info
	}
	can := map[string]any{"fs": map[string]any{"readTextFile": false, "writeTextFile": false}, "terminal": false}
	if session := object(object(params["clientCapabilities"])["session"]); session != nil {
		delete(session, "_meta")
		can["session"] = session
	}
	out["clientCapabilities"] = can
	return out, ""
}

// prompt are the blocks of a prompt, without the content of files. An editor reads a
// mentioned file on the host, and follows a link there that an agent may have planted: the
// agent gets the file's name and reads it inside.
func (r *relay) prompt(blocks []any) []any {
	for i, b := range blocks {
		block := object(b)
		if text(block["type"]) != "resource" {
			continue
		}
		uri := text(object(block["resource"])["uri"])
		u, err := url.Parse(uri)
		if err == nil && u.Scheme != "" && !strings.EqualFold(u.Scheme, "file") {
			continue // of the editor itself, such as a conversation, or of the web
		}
		if err == nil && (u.Host == "" || u.Host == "localhost") {
			if at, ok := r.within(u.Path); ok {
				u.Path, u.RawPath = at, ""
				blocks[i] = map[string]any{"type": "resource_link", "uri": u.String(), "name": path.Base(at)}
				continue
			}
		}
		r.notice("the content of %s is not given to the agent: it is not in the project; paste it, or show its folder with "+
			"--ref", uri)
		blocks[i] = note("%s is not given to an agent in a cloister: it is not in the project", uri)
	}
	return blocks
}

// open holds the beginning of a session to the project, and checks its MCP servers. It
// gives why the session cannot begin.
func (r *relay) open(params map[string]any) string {
	cwd := text(params["cwd"])
	at, ok := r.within(cwd)
	if !ok {
		return fmt.Sprintf("%q is not in the project of this cloister, %s: set the agent's command to cloister run -C "+
			"FOLDER --acp -- …",
			cwd, r.o.Root)
	}
	params["cwd"] = at
	kept := []any{}
	for _, one := range list(params["additionalDirectories"]) {
		if at, ok := r.within(text(one)); ok {
			kept = append(kept, at)
		} else {
			r.notice("the folder %s is not in the project, and not named to the agent", text(one))
		}
	}
	if params["additionalDirectories"] != nil {
		params["additionalDirectories"] = kept
	}
	servers := []any{}
	for _, one := range list(params["mcpServers"]) {
		s := object(one)
		use := Use{Method: "mcpServers", Resource: text(s["name"]), Reason: r.server(s)}
		use.Allowed = use.Reason == ""
		if err := r.record(use); err != nil {
			return fmt.Sprintf("the MCP server %q could not be recorded: %v", use.Resource, err)
		}
		if !use.Allowed {
			r.notice("the MCP server %q is not given to the agent: %s", use.Resource, use.Reason)
			continue
		}
		servers = append(servers, s)
	}
	params["mcpServers"] = servers
	return ""
}

// server gives why an MCP server of the editor cannot be given to the agent; empty where it
// can. One that is a program runs inside; one that is reached by HTTP is reached through
// the gate, if policy allows its host.
func (r *relay) server(s map[string]any) string {
	kind := text(s["type"])
	if kind == "" && s["command"] != nil {
		kind = "stdio"
	}
	delete(s, "_meta")
	switch kind {
	case "stdio":
		for _, name := range names(s["env"]) {
			if !r.o.Named(name) {
				return fmt.Sprintf("it runs inside, and its variable %s would be readable there: name it with -e %s, or bind a "+
					"secret",
					name, name)
			}
		}
		if text(s["command"]) == "" {
			return "it names no command"
		}
		return ""
	case "http", "sse":
		if held := names(s["headers"]); len(held) > 0 {
			return fmt.Sprintf("its header %s would be readable inside: bind a secret to its host instead", held[0])
		}
		return oddAddress(text(s["url"]))
	}
	return fmt.Sprintf("servers of the type %q are reached by way of the editor", kind)
}

// names are those of variables or headers; one that cannot be read has a name of its own.
func names(of any) []string {
	var out []string
	for _, one := range list(of) {
		out = append(out, text(object(one)["name"]))
	}
	if list(of) == nil && of != nil {
		out = append(out, "that cannot be read")
	}
	return out
}

// oddAddress gives why an MCP server's address cannot be given to the agent; empty where it
// can.
func oddAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "its url is none of http or https"
	}
	if u.User != nil {
		return "its url holds a password, which would be readable inside"
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return "127.0.0.1 is the cloister's own inside: declare it under mcp.servers of config.yaml, or pin a name with " +
			"proxy.hosts"
	}
	return ""
}

// within is a path of the project as the agent sees it, by its name alone.
func (r *relay) within(p string) (string, bool) {
	if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
		return "", false
	}
	p = path.Clean(p)
	for _, from := range []string{r.o.Root, r.o.Main, alias} {
		if rest, ok := strings.CutPrefix(p, from); ok && from != "" && (rest == "" || rest[0] == '/') {
			return r.o.Root + rest, true
		}
	}
	return "", false
}

// alias is the project's other name inside.
const alias = "/work"
