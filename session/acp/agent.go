package acp

import (
	"fmt"
	"net/url"
	"strings"

	"cloister/internal/shellword"
)

// fromAgent passes on what the agent sends. An error ends the relay.
func (r *relay) fromAgent(m message) error {
	switch {
	case m.Method == "":
		return r.agentAnswered(m)
	case m.Method == "session/update" && m.ID == nil:
		return r.update(object(m.Params))
	case m.Method == "$/cancel_request" && m.ID == nil:
		params, why := r.toAgent(m.Method, object(m.Params))
		if why != "" {
			return nil
		}
		return r.editor.send(message{Version: "2.0", Method: m.Method, Params: params})
	case m.ID == nil:
		r.notice("left out %s, which is not passed on to an editor", m.Method)
		return nil
	case m.Method == "session/request_permission":
		if err := r.note(r.asking, m); err != nil {
			return r.agent.send(refusal(m.ID, codeParams, "%v", err))
		}
		return r.editor.send(message{Version: "2.0", ID: m.ID, Method: m.Method, Params: r.permission(object(m.Params))})
	}
	u := wanted(m)
	r.refused(u)
	return r.agent.send(refusal(m.ID, codeNoMethod, "%s: %s", m.Method, u.Reason))
}

// wanted is what a request of the agent would have the editor do.
func wanted(m message) Use {
	params := object(m.Params)
	u := Use{Method: clipped(m.Method)}
	switch {
	case m.Method == "terminal/create":
		argv := []string{text(params["command"])}
		for _, a := range list(params["args"]) {
			argv = append(argv, text(a))
		}
		u.Resource = clipped(shellword.Line(argv...))
		u.Reason = "the editor runs no command for an agent in a cloister: run it inside, or on the host with hostexec"
	case strings.HasPrefix(m.Method, "terminal/"):
		u.Resource, u.Reason = clipped(text(params["terminalId"])), "the editor runs no command for an agent in a cloister"
	case strings.HasPrefix(m.Method, "fs/"):
		u.Resource = clipped(text(params["path"]))
		u.Reason = "the editor opens no file for an agent in a cloister: the project's files are inside"
	default:
		u.Reason = "it is nothing that an editor does for an agent in a cloister"
	}
	return u
}

// clipped bounds what the record has of an agent's text.
func clipped(s string) string {
	const most = 4 << 10
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// agentAnswered passes on an answer that the editor waits for.
func (r *relay) agentAnswered(m message) error {
	method, ok := r.settle(r.asked, m)
	if !ok {
		r.notice("left out an answer of the agent to no request")
		return nil
	}
	if m.Error != nil {
		m.Error.Message = visible(m.Error.Message, steers)
		return r.editor.send(answered(m))
	}
	switch result := object(m.Result); method {
	case "initialize":
		out, why := offered(result)
		if why != "" {
			return r.editor.send(refusal(m.ID, codeInternal, "%s", why))
		}
		m.Result = out
	case "session/list":
		m.Result = r.sessions(result)
	default:
		m.Result = clean(m.Result)
	}
	return r.editor.send(answered(m))
}

// sessions leaves the sessions of a list that are the project's.
func (r *relay) sessions(result map[string]any) any {
	kept := []any{}
	for _, one := range list(result["sessions"]) {
		s := object(clean(one))
		at, ok := r.within(text(s["cwd"]))
		if !ok {
			continue
		}
		s["cwd"] = at
		delete(s, "additionalDirectories")
		kept = append(kept, s)
	}
	out := map[string]any{"sessions": kept}
	if next, ok := result["nextCursor"].(string); ok {
		out["nextCursor"] = next
	}
	return out
}

// offered is what the editor gets to know of the agent. A way to log in that is a program
// which the editor runs, or a variable that it sets, would be run or set on the host by the
// agent's word; MCP by way of the editor would reach its servers.
func offered(had map[string]any) (out map[string]any, why string) {
	if fmt.Sprint(had["protocolVersion"]) != version {
		return nil, fmt.Sprintf("the agent speaks version %.20s of the protocol, and cloister version %s",
			fmt.Sprint(had["protocolVersion"]), version)
	}
	out = map[string]any{"protocolVersion": had["protocolVersion"]}
	if info := object(had["agentInfo"]); info != nil {
		out["agentInfo"] = clean(info)
	}
	can := map[string]any{}
	capabilities := object(had["agentCapabilities"])
	for _, key := range []string{"loadSession", "promptCapabilities", "sessionCapabilities", "auth"} {
		if v, ok := capabilities[key]; ok {
			can[key] = clean(v)
		}
	}
	if servers := object(capabilities["mcpCapabilities"]); servers != nil {
		can["mcpCapabilities"] = map[string]any{"http": servers["http"] == true, "sse": servers["sse"] == true}
	}
	out["agentCapabilities"] = can
	methods := []any{}
	for _, one := range list(had["authMethods"]) {
		method := object(one)
		kind, typed := method["type"]
		if typed && kind != "agent" || method["vars"] != nil || method["args"] != nil || method["env"] != nil {
			continue
		}
		kept := map[string]any{}
		for _, key := range []string{"id", "name", "description"} {
			if v, ok := method[key].(string); ok {
				kept[key] = visible(v, steers)
			}
		}
		methods = append(methods, kept)
	}
	out["authMethods"] = methods
	return out, ""
}

// opens gives why an editor may not offer a link; empty for one to the web, which a person
// opens, and for a file of the project.
func (r *relay) opens(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return "its address cannot be read"
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host != "" && u.User == nil {
			return ""
		}
	case "file":
		if u.Host == "" || u.Host == "localhost" {
			_, why := r.openable(u.Path, false)
			return why
		}
	}
	return "it is neither on the web nor in the project"
}

// openable is a path that an editor may open, and change where change is true, or why it
// may not.
func (r *relay) openable(p string, change bool) (at, why string) {
	at, ok := r.within(p)
	if !ok {
		return "", "it is not in the project"
	}
	return at, r.o.Closed(at, change)
}
