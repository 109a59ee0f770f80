package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// probeName is the word by which setup calls this program in a cloister, to send one
// request with an agent's credential.
const probeName = "__probe"

// answered is what the request came to.
type answered struct {
	Status int    `json:"status"`          // of the answer; 0 for none
	Ours   bool   `json:"ours,omitempty"`  // the guardian refused it, and not the server
	Error  string `json:"error,omitempty"` // why there is no answer, or the guardian's reason
}

const (
	probeWithin = 20 * time.Second
	maxProbed   = 64 << 10
)

// probe sends one request: URL, and fields as NAME: VALUE, in which {$VAR} stands for a
// variable.
func probe(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: cloister "+probeName+" URL [FIELD...]")
		return statusWords
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	text, err := json.Marshal(send(ctx, args[0], args[1:]))
	if err != nil {
		return statusFailed // a struct of texts
	}
	fmt.Println(string(text))
	return statusDone
}

func send(ctx context.Context, url string, fields []string) answered {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answered{Error: err.Error()}
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if from := strings.Index(value, "{$"); from >= 0 {
			key, rest, _ := strings.Cut(value[from+2:], "}")
			value = value[:from] + os.Getenv(key) + rest
		}
		r.Header.Set(name, value)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := c.Do(r)
	if err != nil {
		return answered{Error: err.Error()}
	}
	defer func() { _ = answer.Body.Close() }()
	out := answered{Status: answer.StatusCode}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxProbed))
	if err != nil {
		return out // the status is there
	}
	var refusal struct{ Error, Reason string }
	if json.Unmarshal(body, &refusal) == nil && refusal.Error == "cloister" {
		out.Ours, out.Error = true, refusal.Reason
	}
	return out
}
