package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	// maxFrame bounds one line of a client: the content of the largest file that it may
	// write, with its escapes.
	maxFrame = 4 << 20
	// maxRequests bounds the requests of a client that have no answer yet.
	maxRequests = 256
	// lastAnswers bounds how long calls under way go on when the client has closed its end.
	lastAnswers = 5 * time.Second
)

// versions are the revisions of MCP that are spoken, the newest first. The messages that
// this server sends and reads are the same in all of them.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// The error codes of JSON-RPC.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// A problem is the error of a response.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (p *problem) Error() string { return p.Message }

func wrong(code int, format string, args ...any) error {
	return &problem{code, fmt.Sprintf(format, args...)}
}

// A response answers one request; its id is that of the request, as it was written.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *problem        `json:"error,omitempty"`
}

// members are those of an object, by their exact names: encoding/json takes a field's name
// in any case, and two readers would differ.
func members(object []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(object, &m); err != nil || m == nil {
		return nil, errors.New("it is no object")
	}
	return m, nil
}

// word is a member that is a string, and empty where there is none.
func word(m map[string]json.RawMessage, name string) (string, error) {
	raw, there := m[name]
	if !there {
		return "", nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fmt.Errorf("%q is no string", name)
	}
	return *s, nil
}

// isInteger reports whether a value of JSON is an integer of a length that every reader keeps.
func isInteger(raw []byte) bool {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	return len(digits) > 0 && len(digits) < 16 && len(bytes.Trim(digits, "0123456789")) == 0
}
