// Package probe sends one request from inside a cloister, to find out whether a server takes
// an agent's credential.
//
// The promise: it sends a GET and nothing else, follows no redirect, and ends in time. What
// it holds of the credential is a placeholder. It judges nothing: the status is the answer.
//
// Most readers want [Main], which runs inside, and [Answer], which comes back.
package probe

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// Name is the word by which the program is called for it.
const Name = "__probe"

// Answer is what the request came to.
type Answer struct {
	Status int    `json:"status"`          // of the answer; 0 for none
	Ours   bool   `json:"ours,omitempty"`  // the guardian refused it, and not the server
	Error  string `json:"error,omitempty"` // why there is no answer, or the guardian's reason
}

const (
	within  = 20 * time.Second
	maxBody = 64 << 10
)

// Main is the program inside: URL, and fields as NAME: VALUE, in which {$VAR} stands for
// a variable. It prints what came of it, and gives an exit status.
func Main(ctx context.Context, args []string, variable func(string) string, out io.Writer) int {
	if len(args) == 0 {
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if json.NewEncoder(out).Encode(send(ctx, args[0], args[1:], variable)) != nil {
		return 1
	}
	return 0
}

func send(ctx context.Context, url string, fields []string, variable func(string) string) Answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if from := strings.Index(value, "{$"); from >= 0 {
			key, rest, _ := strings.Cut(value[from+2:], "}")
			value = value[:from] + variable(key) + rest
		}
		r.Header.Set(name, value)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := c.Do(r)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	defer func() { _ = answer.Body.Close() }()
	out := Answer{Status: answer.StatusCode}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return out // the status is there
	}
	var refusal struct{ Error, Reason string }
	if json.Unmarshal(body, &refusal) == nil && refusal.Error == "cloister" {
		out.Ours, out.Error = true, refusal.Reason
	}
	return out
}
