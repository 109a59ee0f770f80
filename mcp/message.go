package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A form is what a message of JSON-RPC is.
type form uint8

const (
	request form = iota + 1
	notification
	response
)

// A message is one of JSON-RPC 2.0, read.
type message struct {
	value  *value
	form   form
	id     []byte // as it is written; nil for a notification
	method string
	params *value
	result *value
	failed bool // a response with an error
}

// frame are the messages of one frame.
type frame struct {
	batch    bool
	messages []message
}

// readFrame reads what travels as one: a message, or a batch of them.
func readFrame(in []byte) (*frame, error) {
	v, err := parse(in)
	if err != nil {
		return nil, err
	}
	if v.kind != array {
		m, err := readMessage(&v)
		return &frame{messages: []message{m}}, err
	}
	switch {
	case len(v.items) == 0:
		return nil, &SyntaxError{0, "an empty batch"}
	case len(v.items) > MaxBatch:
		return nil, &SyntaxError{0, fmt.Sprintf("a batch of %d messages; %d are the most", len(v.items), MaxBatch)}
	}
	f := &frame{batch: true}
	ids := map[string]bool{}
	for i := range v.items {
		m, err := readMessage(&v.items[i])
		if err != nil {
			return nil, fmt.Errorf("message %d of the batch: %w", i+1, err)
		}
		if m.form == request {
			if ids[string(m.id)] {
				return nil, &SyntaxError{0, fmt.Sprintf("the id %.40s stands twice in the batch", m.id)}
			}
			ids[string(m.id)] = true
		}
		f.messages = append(f.messages, m)
	}
	return f, nil
}

func readMessage(v *value) (message, error) {
	m := message{value: v}
	bad := func(why string) (message, error) { return message{}, &SyntaxError{0, why} }
	if v.kind != object {
		return bad("a message that is no object")
	}
	if err := v.exactly("jsonrpc", "id", "method", "params", "result", "error"); err != nil {
		return message{}, err
	}
	if version, ok := v.get("jsonrpc").str(); !ok || version != "2.0" {
		return bad(`no "jsonrpc": "2.0"`)
	}
	id, params, outcome, failure := v.get("id"), v.get("params"), v.get("result"), v.get("error")
	if id != nil {
		if id.kind != text && (id.kind != number || bytes.ContainsAny(id.raw, ".eE")) && (id.kind != null || failure == nil) {
			return bad("an id that is neither a text nor a whole number")
		}
		if len(id.raw) > 1024 {
			return bad("an id of more than 1024 bytes")
		}
		m.id = id.raw
	}
	if method := v.get("method"); method != nil {
		var ok bool
		if m.method, ok = method.str(); !ok || m.method == "" {
			return bad("a method that is no text")
		}
		if outcome != nil || failure != nil {
			return bad("a message that asks and answers at once")
		}
		if params != nil {
			if params.kind != object {
				return bad("params that are no object")
			}
			if err := params.exactly("name", "arguments", "uri", "ref", "cursor", "_meta", "inputResponses"); err != nil {
				return message{}, err
			}
		}
		m.params, m.form = params, request
		if id == nil {
			m.form = notification
		}
		return m, nil
	}
	switch {
	case (outcome == nil) == (failure == nil):
		return bad("a message that is no request, no notification and no response")
	case id == nil && failure == nil:
		return bad("a response without id")
	case params != nil:
		return bad("a response with params")
	}
	m.form, m.result, m.failed = response, outcome, failure != nil
	return m, nil
}

// exactly refuses names that are one of these but for their case: some readers of
// JSON take one for the other.
func (v *value) exactly(names ...string) error {
	for _, n := range v.names {
		for _, want := range names {
			if n != want && strings.EqualFold(n, want) {
				return &SyntaxError{0, fmt.Sprintf("the key %.60q is %s in other letters", n, want)}
			}
		}
	}
	return nil
}

// with is an object with another value in the place of one of its own.
func (v *value) with(name string, raw []byte) []byte {
	at := v.get(name)
	from := offset(v.raw, at.raw)
	return slices.Concat(v.raw[:from], raw, v.raw[from+len(at.raw):])
}

// offset is where a part begins in what it was cut from.
func offset(whole, part []byte) int { return cap(whole) - cap(part) }

// list writes values as an array.
func list(items [][]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]"))
}

// The codes of errors that are made here (JSON-RPC 2.0, 5.1; those from -32000 to
// -32099 are an implementation's own).
const (
	codeParse   = -32700
	codeRefused = -32003
)

// failure is a response with an error. id nil stands for null.
func failure(id []byte, code int, v Answer) []byte {
	if id == nil {
		id = []byte("null")
	}
	type data struct {
		Error  string   `json:"error"` // always "cloister", as in HTTP
		Rule   string   `json:"rule,omitempty"`
		Hints  []string `json:"hints,omitempty"`
		Server string   `json:"server,omitempty"`
	}
	out, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    data   `json:"data"`
	}{code, "cloister refused this: " + v.Reason, data{"cloister", v.Rule, v.Hints, v.Server}}})
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"cloister refused this"}}`)
	}
	return out
}

// Speaks reports whether a text could be taken for a frame: it is no JSON at all
// (someone may read it in another way), or holds what JSON-RPC does.
func Speaks(in []byte) bool {
	if !bytes.Contains(in, []byte("json")) && !bytes.Contains(in, []byte(`\u`)) {
		return false // no "jsonrpc" in any spelling
	}
	v, err := parse(in)
	if err != nil {
		return true
	}
	items := []value{v}
	if v.kind == array {
		items = v.items
	}
	for i := range items {
		for _, n := range items[i].names {
			if strings.EqualFold(n, "jsonrpc") {
				return true
			}
		}
	}
	return false
}
