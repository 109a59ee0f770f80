package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloister/api"
)

// call makes one request. The host in the URL is a fixed word: the guardian
// refuses any other, so a browser that reached the socket would be refused.
// answerWithin is how long a guardian may take over a question that needs no
// waiting: one that hangs is reported as such, and not waited for.
const answerWithin = 10 * time.Second

// ask is call for what is answered at once.
func ask[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, ErrNoAnswer)
	defer cancel()
	answer, err := call[T](ctx, c, method, path, body)
	if err != nil && errors.Is(context.Cause(ctx), ErrNoAnswer) {
		err = ErrNoAnswer
	}
	return answer, err
}

func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	return callUpTo[T](ctx, c, api.MaxBody, method, path, body)
}

// callUpTo is call for an answer of that many bytes.
func callUpTo[T any](ctx context.Context, c *Client, most int, method, path string, body any) (T, error) {
	var answer T
	req, err := newRequest(ctx, method, path, body)
	if err != nil {
		return answer, err
	}
	resp, err := c.http.Do(req)
	if method == http.MethodGet && diedMeanwhile(err) {
		// What was only asked can be asked again: the next guardian, or no one.
		resp, err = c.http.Do(req)
	}
	if err != nil {
		return answer, fmt.Errorf("call the guardian: %s %s: %w", method, path, unwrapURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 {
		return answer, readError(resp)
	}
	if err := decode(resp.Body, most, &answer); err != nil {
		return answer, fmt.Errorf("call the guardian: %s %s: %w", method, path, err)
	}
	return answer, nil
}

func newRequest(ctx context.Context, method, path string, body any) (*http.Request, error) {
	// A name of dots would lead to another route, as it does in every path.
	where, _, _ := strings.Cut(path, "?")
	for word := range strings.SplitSeq(where, "/") {
		if word == "." || word == ".." {
			why := "there is no name " + strconv.Quote(word)
			return nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: why}
		}
	}
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("call the guardian: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+api.Host+path, reader)
	if err != nil {
		return nil, fmt.Errorf("call the guardian: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// diedMeanwhile tells that a guardian took the call and is gone.
func diedMeanwhile(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// unwrapURL drops url.Error's repetition of method and address.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func readError(resp *http.Response) error {
	refused := &api.Error{}
	if err := decode(resp.Body, api.MaxBody, refused); err != nil || refused.Message == "" {
		return &api.Error{Status: resp.StatusCode, Code: api.CodeInternal, Message: "call the guardian: " + resp.Status}
	}
	refused.Status = resp.StatusCode
	return refused
}

func decode(r io.Reader, most int, v any) error {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if len(text) > most {
		return fmt.Errorf("read answer: longer than %d bytes", most)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}
