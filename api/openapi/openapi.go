// Package openapi describes the guardian's API in the form that other programs
// read (OpenAPI 3.1).
//
// The promise: the schemas are made from the types of room api by the rules of
// encoding/json, and the operations from the table of routes that the caller
// hands in, so the document cannot name what is not served.
//
// It serves nothing and checks no request.
//
// Most readers want [Document].
package openapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"cloister/api"
)

// shape says what travels on a route.
type shape struct {
	gives   any      // the answer to GET
	takes   any      // the body of POST
	answers any      // the answer to POST
	media   string   // of the answer to GET, where that is no JSON document
	upgrade string   // what the connection becomes
	query   []string // what GET may add
}

// shapes are those of the routes; one that is missing takes and gives any JSON.
func shapes() map[string]shape {
	type nothing = struct{}
	record := []string{"session", "kind", "verdict", "since", "until", "text"}
	return map[string]shape{
		api.PathStatus:                     {gives: api.Status{}},
		api.PathStop:                       {takes: api.StopRequest{}, answers: nothing{}},
		api.PathReload:                     {answers: api.Reload{}},
		api.PathWindow:                     {answers: api.Link{}},
		api.PathDevices:                    {gives: api.Devices{}, takes: api.PairRequest{}, answers: api.Pairing{}},
		api.PathDevices + "/pairing":       {gives: api.Pairing{}, takes: api.PairWord{}, answers: api.Device{}},
		api.PathDevices + "/{name}/remove": {answers: api.Device{}},
		api.PathSessions: {gives: []api.SessionInfo{}, takes: api.SessionRequest{},
			upgrade: api.UpgradeProtocol, query: []string{"all"}},
		api.PathSessions + "/{name}":          {gives: api.ExecInfo{}},
		api.PathSessions + "/{name}/stop":     {takes: api.StopRequest{}, answers: api.SessionInfo{}},
		api.PathSessions + "/{name}/terminal": {upgrade: "websocket"},
		api.PathPolicy:                        {gives: api.Policy{}, query: []string{"session"}},
		api.PathPolicyDigest:                  {gives: api.PolicyDigest{}},
		api.PathPolicyCheck:                   {answers: api.PolicyCheck{}},
		api.PathPolicyExplain:                 {takes: api.ExplainRequest{}, answers: api.Explanation{}},
		api.PathPolicyFiles:                   {gives: []api.PolicyFile{}, takes: api.PolicyDraft{}, answers: api.Reload{}},
		api.PathPolicyFiles + "/check":        {takes: api.PolicyDraft{}, answers: api.PolicyCheck{}},
		api.PathPolicyDraft:                   {takes: api.RuleDraft{}, answers: api.DraftedRule{}},
		api.PathPolicyWords:                   {gives: api.PolicyWords{}},
		api.PathApprovals:                     {gives: []api.Approval{}, query: []string{"all"}},
		api.PathApprovals + "/{id}":           {gives: api.Approval{}},
		api.PathApprovals + "/{id}/approve":   {takes: api.ApprovalReply{}, answers: api.Approval{}},
		api.PathApprovals + "/{id}/deny":      {takes: api.ApprovalReply{}, answers: api.Approval{}},
		api.PathDecisions:                     {gives: []api.Decision{}},
		api.PathDecisions + "/{id}/undo":      {takes: api.ApprovalReply{}, answers: api.Decision{}},
		api.PathEvents: {gives: api.Event{}, media: "text/event-stream",
			query: []string{"audit", "session"}},
		api.PathSecrets:                     {gives: api.Secrets{}},
		api.PathSecrets + "/{name}":         {gives: api.Secret{}, takes: api.SecretSet{}, answers: api.Secret{}},
		api.PathSecrets + "/{name}/remove":  {answers: nothing{}},
		api.PathSessions + "/{name}/tool":   {takes: api.ToolCall{}, answers: api.ToolVerdict{}},
		api.PathSessions + "/{name}/editor": {takes: api.EditorUse{}, answers: nothing{}},
		api.PathMCP:                         {gives: []api.MCPServer{}},
		api.PathMCP + "/{name}":             {gives: api.MCPServer{}},
		api.PathMCP + "/{name}/pin":         {takes: api.MCPPin{}, answers: api.MCPPinned{}},
		api.PathAudit:                       {gives: api.Records{}, query: append(record, "before", "after", "limit")},
		api.PathAudit + "/verify":           {gives: api.Verification{}},
		api.PathAudit + "/export":           {media: "application/jsonl", query: record},
		api.PathCommands:                    {gives: []api.HostCommand{}},
		api.PathCommands + "/{id}":          {gives: api.HostCommand{}},
		api.PathFiles + "/{seq}":            {gives: api.ChangedFile{}},
		api.PathProjects:                    {gives: []string{}},
		api.PathProjects + "/start":         {takes: api.StartRequest{}, answers: api.StartAnswer{}},
	}
}

// object is one of JSON.
type object = map[string]any

// Route is one row of the table.
type Route struct {
	Path string // as http.ServeMux patterns spell it
	// Read and Write are who may GET and POST; empty where no caller may.
	Read, Write string
	What        string
}

// Document describes a table of routes: a value that encoding/json writes.
func Document(version string, routes []Route) any {
	d := document{schemas: object{}}
	failure := object{"description": "why not",
		"content": object{"application/json": object{"schema": d.of(reflect.TypeFor[api.Error]())}}}
	paths, known := object{}, shapes()
	for _, route := range routes {
		s, item := known[route.Path], object{}
		if p := parameters(route.Path); len(p) > 0 {
			item["parameters"] = p
		}
		if route.Read != "" {
			item["get"] = d.get(route, s)
		}
		if route.Write != "" {
			item["post"] = d.post(route, s)
		}
		paths[route.Path] = item
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title":   "The guardian of Cloister",
			"version": version,
			"description": "HTTP/1.1 over the unix socket that `cloister guardian status --json` names, for its own user " +
				"alone (peer credentials). " +
				"A browser that the person let in (`cloister guardian open`) reaches the operations whose x-cloister-caller is " +
				"window.",
		},
		"servers":    []object{{"url": "http://" + api.Host, "description": "the unix socket"}},
		"paths":      paths,
		"components": object{"schemas": d.schemas, "responses": object{"Refused": failure}},
	}
}

// document gathers the schemas of the types that are named.
type document struct{ schemas object }

func (d document) get(route Route, s shape) object {
	op := operation(route, "get", route.Read)
	query := []object{}
	for _, name := range s.query {
		query = append(query, object{"name": name, "in": "query", "schema": object{"type": "string"}})
	}
	if len(query) > 0 {
		op["parameters"] = query
	}
	op["responses"] = d.responses(s.gives, s.media, upgradeOf(s, route.Write == ""))
	return op
}

func (d document) post(route Route, s shape) object {
	op := operation(route, "post", route.Write)
	if s.takes != nil {
		op["requestBody"] = object{"content": object{"application/json": object{"schema": d.of(reflect.TypeOf(s.takes))}}}
	}
	op["responses"] = d.responses(s.answers, "", upgradeOf(s, true))
	return op
}

func upgradeOf(s shape, here bool) string {
	if here {
		return s.upgrade
	}
	return ""
}

func operation(route Route, method string, who string) object {
	words := strings.FieldsFunc(strings.TrimPrefix(route.Path, "/v1"),
		func(r rune) bool { return strings.ContainsRune("/{}", r) })
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return object{"operationId": method + strings.Join(words, ""), "summary": route.What, "x-cloister-caller": who}
}

func (d document) responses(gives any, media, upgrade string) object {
	if upgrade != "" {
		return object{"101": object{"description": "the connection becomes " + upgrade},
			"default": object{"$ref": "#/components/responses/Refused"}}
	}
	if media == "" {
		media = "application/json"
	}
	schema := object{}
	if gives != nil {
		schema = d.of(reflect.TypeOf(gives))
	}
	return object{
		"200":     object{"description": "the answer", "content": object{media: object{"schema": schema}}},
		"default": object{"$ref": "#/components/responses/Refused"},
	}
}

// parameters are the {words} of a path.
func parameters(path string) []object {
	var out []object
	for rest := path; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			return out
		}
		name, tail, _ := strings.Cut(after, "}")
		out = append(out, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		rest = tail
	}
}

// of is the schema of a type, as encoding/json writes its values.
func (d document) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		return d.named(t)
	case reflect.Interface:
		return object{}
	default:
		return object{"type": "integer"}
	}
}

// named puts a struct's schema among the components, once.
func (d document) named(t reflect.Type) object {
	if t.Name() == "" {
		return object{"type": "object"}
	}
	if _, ok := d.schemas[t.Name()]; !ok {
		schema := object{"type": "object"}
		d.schemas[t.Name()] = schema // before its members: one may be of the same type
		properties, required := object{}, []string{}
		d.members(t, properties, &required)
		schema["properties"] = properties
		if len(required) > 0 {
			schema["required"] = required
		}
	}
	return object{"$ref": "#/components/schemas/" + t.Name()}
}

func (d document) members(t reflect.Type, into object, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			d.members(f.Type, into, required)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		into[name] = d.of(f.Type)
		if !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			*required = append(*required, name)
		}
	}
}
