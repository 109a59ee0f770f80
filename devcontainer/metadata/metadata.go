// Package metadata merges what an image, its features and a devcontainer.json say into
// one configuration, as the specification orders it.
//
// The promise: for the same entries the result is what the reference implementation
// gives (cmd/cloister/realtest compares them). It judges nothing: a power that an entry
// asks for is in the result, and the room demand refuses it.
// Most readers want [Merge].
package metadata

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Label is the image label that keeps entries.
const Label = "devcontainer.metadata"

// Entry is what one source says: an image's label, a feature or the file.
type Entry = map[string]any

// fromFile are the properties of a devcontainer.json that are an entry's.
var fromFile = []string{
	"onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand", "postAttachCommand", "waitFor",
	"customizations", "mounts", "containerEnv", "containerUser", "init", "privileged", "capAdd", "securityOpt",
	"remoteUser",
	"userEnvProbe", "remoteEnv", "overrideCommand", "portsAttributes", "otherPortsAttributes", "forwardPorts",
	"shutdownAction", "updateRemoteUserUID", "hostRequirements",
}

// fromFeature are those of a devcontainer-feature.json.
var fromFeature = []string{
	"onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand", "postAttachCommand", "init",
	"privileged", "capAdd", "securityOpt", "entrypoint", "mounts", "customizations",
}

// OfFile is the entry of a devcontainer.json.
func OfFile(config map[string]any) Entry { return pick(config, fromFile) }

// OfFeature is the entry of a feature.
func OfFeature(id string, feature map[string]any) Entry {
	e := pick(feature, fromFeature)
	e["id"] = id
	return e
}

func pick(from map[string]any, keys []string) Entry {
	out := Entry{}
	for _, k := range keys {
		if v, ok := from[k]; ok {
			out[k] = v
		}
	}
	return out
}

// OfLabel reads the entries of an image's label.
func OfLabel(text string) ([]Entry, error) {
	if text == "" {
		return nil, nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("read the image's label %s: %w", Label, err)
	}
	if one, ok := v.(map[string]any); ok {
		return []Entry{one}, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("read the image's label %s: it is neither an object nor a list", Label)
	}
	var out []Entry
	for n, item := range list {
		one, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("read the image's label %s: item %d is no object", Label, n+1)
		}
		out = append(out, one)
	}
	return out, nil
}

// replaced are the properties of the file that the merge writes under another name.
var replaced = []string{
	"customizations", "entrypoint", "onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand",
	"postAttachCommand", "shutdownAction",
}

// Commands are the lifecycle commands that every source may add one to, in their order.
var Commands = []string{"onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand",
	"postAttachCommand"}

// Merge is the merged configuration: the file's own keys, and over them what the
// entries say together. The file's entry is the last of them.
func Merge(config map[string]any, entries []Entry) map[string]any {
	out := maps.Clone(config)
	for _, k := range replaced {
		delete(out, k)
	}
	set := func(key string, v any) {
		if v == nil {
			delete(out, key)
			return
		}
		out[key] = v
	}
	set("init", anyTrue(entries, "init"))
	set("privileged", anyTrue(entries, "privileged"))
	set("capAdd", union(entries, "capAdd"))
	set("securityOpt", union(entries, "securityOpt"))
	set("entrypoints", values(entries, "entrypoint", true))
	set("mounts", mounts(entries))
	set("customizations", customizations(entries))
	for _, k := range Commands {
		set(k+"s", values(entries, k, false))
	}
	for _, k := range []string{"waitFor", "remoteUser", "containerUser", "userEnvProbe", "otherPortsAttributes",
		"shutdownAction"} {
		set(k, last(entries, k, truthy))
	}
	for _, k := range []string{"overrideCommand", "updateRemoteUserUID"} {
		set(k, last(entries, k, func(v any) bool { _, ok := v.(bool); return ok }))
	}
	for _, k := range []string{"remoteEnv", "containerEnv", "portsAttributes"} {
		set(k, objects(entries, k))
	}
	set("forwardPorts", ports(entries))
	set("hostRequirements", requirements(entries))
	return out
}

// truthy is what JavaScript takes for true, by which the reference decides what counts
// as said.
func truthy(v any) bool {
	switch t := v.(type) {
	case nil:
		return false
	case bool:
		return t
	case string:
		return t != ""
	case json.Number:
		f, err := t.Float64()
		return err != nil || f != 0
	case float64:
		return t != 0
	}
	return true
}

func anyTrue(entries []Entry, key string) any {
	return slices.ContainsFunc(entries, func(e Entry) bool { return truthy(e[key]) })
}

func last(entries []Entry, key string, counts func(any) bool) any {
	for _, e := range slices.Backward(entries) {
		if v := e[key]; counts(v) {
			return v
		}
	}
	return nil
}

// values are what entries say of a key, in order; nil for none, where none is absent.
func values(entries []Entry, key string, absent bool) any {
	out := []any{}
	for _, e := range entries {
		if v := e[key]; truthy(v) {
			out = append(out, v)
		}
	}
	if absent && len(out) == 0 {
		return nil
	}
	return out
}

// union is every item of a list that entries say, each once.
func union(entries []Entry, key string) any {
	var out []any
	for _, e := range entries {
		list, ok := e[key].([]any)
		if !ok && truthy(e[key]) {
			list = []any{e[key]}
		}
		for _, v := range list {
			if !slices.ContainsFunc(out, func(o any) bool { return same(o, v) }) {
				out = append(out, v)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// same compares plain values; an object is only the same as itself, as in the reference.
func same(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

func objects(entries []Entry, key string) any {
	out := map[string]any{}
	for _, e := range entries {
		if o, ok := e[key].(map[string]any); ok {
			maps.Copy(out, o)
		}
	}
	return out
}

// customizations are lists by tool of what each entry says.
func customizations(entries []Entry) any {
	out := map[string]any{}
	for _, e := range entries {
		tools, ok := e["customizations"].(map[string]any)
		if !ok {
			continue
		}
		for _, tool := range slices.Sorted(maps.Keys(tools)) {
			before, _ := out[tool].([]any)
			out[tool] = append(before, tools[tool])
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func plain(f float64) json.Number { return json.Number(strconv.FormatFloat(f, 'f', -1, 64)) }
