package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// updates are the kinds of session/update that are passed on.
var updates = map[string]bool{
	"user_message_chunk": true, "agent_message_chunk": true, "agent_thought_chunk": true,
	"tool_call": true, "tool_call_update": true, "plan": true, "available_commands_update": true,
	"current_mode_update": true, "config_option_update": true, "session_info_update": true, "usage_update": true,
}

// update passes on one notification about a session.
func (r *relay) update(params map[string]any) error {
	update := object(params["update"])
	kind := text(update["sessionUpdate"])
	if !updates[kind] {
		r.notice("left out an update of the kind %q, which is not passed on to an editor", kind)
		return nil
	}
	if strings.HasPrefix(kind, "tool_call") {
		update = r.toolCall(update)
	} else {
		content, has := update["content"]
		delete(update, "content")
		update = object(clean(exact(update)))
		if has {
			update["content"] = r.block(object(content))
		}
	}
	return r.editor.send(message{Version: "2.0", Method: "session/update", Params: map[string]any{
		"sessionId": text(params["sessionId"]), "update": update,
	}})
}

// exact is an update without members that are those which decide what it means but for
// their case: some readers of JSON take one for the other.
func exact(update map[string]any) map[string]any {
	for name := range update {
		for _, known := range []string{"sessionUpdate", "content", "locations"} {
			if name != known && strings.EqualFold(name, known) {
				delete(update, name)
			}
		}
	}
	return update
}

// permission are the params of a question that the agent has the editor ask.
func (r *relay) permission(params map[string]any) map[string]any {
	options := []any{}
	for _, one := range list(params["options"]) {
		had, kept := object(one), map[string]any{}
		for _, key := range []string{"optionId", "name", "kind"} {
			kept[key] = visible(text(had[key]), conceals)
		}
		kept["optionId"] = text(had["optionId"]) // the agent gets it back
		options = append(options, kept)
	}
	call := r.toolCall(object(params["toolCall"]))
	for _, key := range []string{"title", "name", "rawInput", "rawOutput"} {
		if v, ok := call[key]; ok {
			call[key] = spelled(v, conceals)
		}
	}
	return map[string]any{"sessionId": text(params["sessionId"]), "toolCall": call, "options": options}
}

// toolCall is what an agent says of a call of one of its tools, as the editor gets it.
func (r *relay) toolCall(had map[string]any) map[string]any {
	out := map[string]any{}
	for _, key := range []string{"sessionUpdate", "toolCallId", "title", "name", "kind", "status"} {
		if v, ok := had[key]; ok {
			out[key] = clean(v)
		}
	}
	for _, key := range []string{"rawInput", "rawOutput"} {
		if v, ok := had[key]; ok {
			out[key] = spelled(v, steers) // all of it: a person may decide by it
		}
	}
	if v, ok := had["toolCallId"].(string); ok {
		out["toolCallId"] = v
	}
	if had["locations"] != nil {
		out["locations"] = r.locations(list(had["locations"]))
	}
	if had["content"] != nil {
		content := []any{}
		for _, one := range list(had["content"]) {
			content = append(content, r.produced(object(one)))
		}
		out["content"] = content
	}
	return out
}

// produced is one part of what a tool call produced.
func (r *relay) produced(part map[string]any) map[string]any {
	inTool := func(block map[string]any) map[string]any { return map[string]any{"type": "content", "content": block} }
	switch kind := text(part["type"]); kind {
	case "content":
		return inTool(r.block(object(part["content"])))
	case "diff":
		p := text(part["path"])
		at, why := r.openable(p, true)
		if why != "" {
			return inTool(note("a change of %q is not shown: %s", p, why))
		}
		out := map[string]any{"type": "diff", "path": at, "newText": visible(text(part["newText"]), steers)}
		if old, ok := part["oldText"].(string); ok {
			out["oldText"] = visible(old, steers)
		}
		return out
	case "terminal":
		return inTool(note("output of a command that the editor does not run"))
	default:
		return inTool(note("content of the kind %q, which is not passed on to an editor", kind))
	}
}

// note is a block of text in place of what the editor does not get.
func note(format string, args ...any) map[string]any {
	return map[string]any{"type": "text", "text": "[cloister: " + fmt.Sprintf(format, args...) + "]"}
}

// block is a block of content as the editor gets it.
func (r *relay) block(had map[string]any) map[string]any {
	kind := text(had["type"])
	out := map[string]any{"type": kind}
	keep := func(keys ...string) {
		for _, key := range keys {
			if v, ok := had[key]; ok {
				out[key] = clean(v)
			}
		}
	}
	switch kind {
	case "text":
		keep("text", "annotations")
	case "image", "audio":
		// Without uri: an editor would fetch it past the gate, and the data is here.
		keep("data", "mimeType", "annotations")
	case "resource_link":
		if why := r.opens(text(had["uri"])); why != "" {
			return note("a link to %q is not shown: %s", text(had["uri"]), why)
		}
		keep("uri", "name", "title", "description", "mimeType", "size", "annotations")
	case "resource":
		held := object(had["resource"])
		if why := r.opens(text(held["uri"])); why != "" {
			return note("a text called %q is not shown: %s", text(held["uri"]), why)
		}
		keep("annotations")
		kept := map[string]any{}
		for _, key := range []string{"uri", "mimeType", "text", "blob"} {
			if v, ok := held[key]; ok {
				kept[key] = clean(v)
			}
		}
		out["resource"] = kept
	default:
		return note("content of the kind %q, which is not passed on to an editor", kind)
	}
	return out
}

// locations are the places that an editor may follow.
func (r *relay) locations(had []any) []any {
	kept := []any{}
	for _, one := range had {
		place := object(one)
		at, why := r.openable(text(place["path"]), false)
		if why != "" {
			continue
		}
		line := map[string]any{"path": at}
		if n, ok := place["line"].(json.Number); ok {
			line["line"] = n
		}
		kept = append(kept, line)
	}
	return kept
}

// clean is a value without extension data, in whose texts control characters are spelled
// out.
func clean(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = clean(v[i])
		}
		return v
	case map[string]any:
		delete(v, "_meta")
		for name, member := range v {
			v[name] = clean(member)
		}
		return v
	}
	return spelled(v, steers)
}

// spelled is a value in whose texts these characters are spelled out.
func spelled(v any, these func(rune) bool) any {
	switch v := v.(type) {
	case string:
		return visible(v, these)
	case []any:
		for i := range v {
			v[i] = spelled(v[i], these)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[visible(name, these)] = spelled(member, these)
		}
		return out
	}
	return v
}

// visible is a text with these characters spelled out: an editor may show the text on a
// terminal, which obeys some, and a person reads it.
func visible(s string, these func(rune) bool) string {
	if strings.IndexFunc(s, these) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !these(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, "\\x%02x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// steers are control characters but for line ends and tabs, and those that have others
// shown in another order than they are in. The three marks of a direction reorder no letter,
// and stand in ordinary texts.
func steers(r rune) bool {
	if unicode.IsControl(r) {
		return r != '\t' && r != '\n' && r != '\r'
	}
	return unicode.Is(unicode.Bidi_Control, r) && r != '\u200e' && r != '\u200f' && r != '\u061c'
}

// conceals are in addition those that are not seen at all: a question has none.
func conceals(r rune) bool {
	return steers(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
