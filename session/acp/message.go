package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"cloister/mcp"
)

// A message is one of JSON-RPC 2.0. ID nil is that of a notification.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// The codes of errors (JSON-RPC 2.0, 5.1).
const (
	codeParse    = -32700
	codeNoMethod = -32601
	codeParams   = -32602
	codeInternal = -32603
)

// response answers a request; result nil stands for null.
func response(id json.RawMessage, result any) any {
	return struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", id, result}
}

func refusal(id json.RawMessage, code int, format string, args ...any) any {
	return message{Version: "2.0", ID: id, Error: &failure{code, "cloister: " + fmt.Sprintf(format, args...)}}
}

// sender writes whole lines for several goroutines.
type sender struct {
	mu sync.Mutex
	to io.Writer
	// closes says that the reader may close its end: what it does not take is left out.
	closes bool
}

func (s *sender) send(v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.to.Write(line.Bytes()); err != nil && !s.closes {
		return err
	}
	return nil
}

// topNames are the members of a message.
var topNames = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// read reads one message into plain values. Its id has one spelling afterwards.
func read(line []byte) (message, error) {
	var m message
	if err := mcp.Strict(line); err != nil {
		return m, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(line, &top); err != nil || top == nil {
		return m, errors.New("it is no object")
	}
	for name := range top {
		for _, known := range topNames {
			if name != known && strings.EqualFold(name, known) {
				return m, fmt.Errorf("its member %.60q is %s in other letters", name, known)
			}
		}
	}
	if string(top["jsonrpc"]) != `"2.0"` {
		return m, errors.New("it is not of JSON-RPC 2.0")
	}
	m.Version = "2.0"
	if raw, said := top["method"]; said {
		if raw[0] != '"' || json.Unmarshal(raw, &m.Method) != nil || m.Method == "" {
			return m, errors.New("its method is no name")
		}
	}
	_, hasResult := top["result"]
	_, hasError := top["error"]
	if m.Method == "" && hasResult == hasError || m.Method != "" && (hasResult || hasError) {
		return m, errors.New("it is neither a request nor an answer")
	}
	if raw, said := top["id"]; said {
		var err error
		if m.ID, err = readID(raw); err != nil {
			return m, err
		}
	}
	if m.Method == "" && m.ID == nil {
		return m, errors.New("it answers no request")
	}
	return m, errors.Join(plain(top["params"], &m.Params), plain(top["result"], &m.Result), plain(top["error"], &m.Error))
}

// readID reads an id, a string or an integer, in the spelling that encoding/json gives it.
func readID(raw json.RawMessage) (json.RawMessage, error) {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	switch {
	case len(raw) > 256:
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		return json.Marshal(text)
	case len(digits) > 0 && len(digits) < 16 && len(bytes.Trim(digits, "0123456789")) == 0:
		return raw, nil
	}
	return nil, errors.New("its id is neither a string nor an integer")
}

// plain decodes a part of a message; numbers stay as they are written.
func plain(raw json.RawMessage, to any) error {
	if raw == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		return errors.New("a part of it has an unexpected type")
	}
	return nil
}

// note enters a request that the other end has to answer.
func (r *relay) note(in map[string]string, m message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := in[string(m.ID)]; twice {
		return errors.New("a request with this id is under way already")
	}
	if len(in) >= maxPending {
		return fmt.Errorf("%d requests are under way already", maxPending)
	}
	in[string(m.ID)] = m.Method
	return nil
}

// settle takes a request off the list and gives its method; false for none.
func (r *relay) settle(in map[string]string, m message) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	method, ok := in[string(m.ID)]
	delete(in, string(m.ID))
	return method, ok
}

// object is a value as an object; nil for what is none.
func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// list is a value as an array; nil for what is none.
func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// text is a value as a string; empty for what is none.
func text(v any) string {
	s, _ := v.(string)
	return s
}
