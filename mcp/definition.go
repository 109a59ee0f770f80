package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// A Definition is what a server says of one tool.
type Definition struct {
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
