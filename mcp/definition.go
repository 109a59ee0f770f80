package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"cloister/policy"
)

// A Definition is what a server says of one tool, prompt, resource or template, or
// of itself: every text of it that a model may read.
type Definition struct {
	// Name is a tool's, or what Key makes.
	Name string
	// Digest is of all that it says, however that is laid out.
	Digest string
	// Text is that in one form, as JSON.
	Text []byte
}

// Description is what a definition tells a model.
func (d Definition) Description() string {
	v, err := parse(d.Text)
	if err != nil {
		return ""
	}
	text, _ := v.get("description").str()
	return text
}

// Schema is what it says of the arguments, as JSON.
func (d Definition) Schema() string {
	v, err := parse(d.Text)
	if err != nil || v.get("inputSchema") == nil {
		return ""
	}
	return string(v.get("inputSchema").raw)
}

// Itself is the name of what a server says of itself: its instructions and its name.
const Itself = "initialize"

// Key is the name under which something is pinned: a tool's own, and the others' behind
// the list that they are in. A tool that is called so differs from what is pinned, and
// is asked about.
func Key(f policy.Feature, name string) string {
	switch f {
	case policy.Prompt:
		return "prompts/" + name
	case policy.Resource:
		return "resources/" + name
	case policy.Tool, policy.Sampling, policy.Elicitation, policy.Roots:
	}
	return name
}

// Feature is what a key is of, and its name there.
func Feature(key string) (policy.Feature, string) {
	if name, ok := strings.CutPrefix(key, "prompts/"); ok {
		return policy.Prompt, name
	}
	if name, ok := strings.CutPrefix(key, "resources/"); ok {
		return policy.Resource, name
	}
	return policy.Tool, key
}

// Members are what a definition says, by the names of JSON: texts as they read, all
// else as JSON.
func (d Definition) Members() map[string]string {
	out := map[string]string{}
	v, err := parse(d.Text)
	if err != nil || v.kind != object {
		return out
	}
	for i, name := range v.names {
		if said, ok := v.items[i].str(); ok {
			out[name] = said
		} else {
			out[name] = string(v.items[i].raw)
		}
	}
	return out
}

// read are the members of a resource that a model reads; its size and when it was
// written change with it.
var read = []string{"uri", "uriTemplate", "name", "title", "description", "mimeType", "icons", "_meta"}

// some is the definition of v by those of its members alone.
func some(name string, v *value, members []string) Definition {
	kept := value{kind: object}
	for i, n := range v.names {
		if slices.Contains(members, n) {
			kept.names, kept.items = append(kept.names, n), append(kept.items, v.items[i])
		}
	}
	return define(name, &kept)
}

func define(name string, v *value) Definition {
	var b bytes.Buffer
	canonical(&b, v)
	sum := sha256.Sum256(b.Bytes())
	return Definition{Name: name, Digest: "sha256:" + hex.EncodeToString(sum[:]), Text: b.Bytes()}
}

// Digest names arguments, however they are laid out; empty for none.
func Digest(raw []byte) string {
	v, err := parse(raw)
	if err != nil {
		return ""
	}
	return define("", &v).Digest
}

// canonical writes a value with the keys of objects in order, without space, each
// text in one spelling. Numbers stay as they are written.
func canonical(b *bytes.Buffer, v *value) {
	switch v.kind {
	case object:
		order := make([]int, len(v.names))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int { return strings.Compare(v.names[i], v.names[j]) })
		b.WriteByte('{')
		for n, i := range order {
			if n > 0 {
				b.WriteByte(',')
			}
			quote(b, v.names[i])
			b.WriteByte(':')
			canonical(b, &v.items[i])
		}
		b.WriteByte('}')
	case array:
		b.WriteByte('[')
		for i := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			canonical(b, &v.items[i])
		}
		b.WriteByte(']')
	case text:
		quote(b, decode(v.raw))
	case null, boolean, number:
		b.Write(v.raw)
	}
}

func quote(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)         // a text, to memory
	b.Truncate(b.Len() - 1) // its line end
}
