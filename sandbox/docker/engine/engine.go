// Package engine calls the API of a container engine over its socket.
//
// It promises that each call is bounded in time and size, and that an answer which is not an
// engine's is an error with advice. It knows no container of Cloister's: package docker does.
//
// Most readers want [New] and [Client.Call].
package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloister/sandbox"
)

// Client is the Engine API over its socket. Only what a driver needs is here:
// the client library would bring 18 modules and their start-up into every run
// (docs/decisions/0015).
type Client struct {
	socket string
	HTTP   *http.Client
	Within time.Duration // bounds each call: an engine that hangs is refused by name
	Podman bool          // it is Podman's compatible socket
}

// The versions of the API that are spoken: 1.41 came with Engine 20.10 and brought
// cgroup namespaces; 1.44 is the oldest that Engine 29 still answers.
const (
	oldestAPI = 41
	newestAPI = 44
)

// AnswerWithin is longer than a busy engine takes to answer.
const AnswerWithin = 20 * time.Second

// removeWithin is for what can be a million files on a busy disk.
const removeWithin = 2 * time.Minute

func New(socket string) *Client {
	return &Client{socket: socket, Within: AnswerWithin, HTTP: &http.Client{Transport: &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 4,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

func (e *Client) Close() { e.HTTP.CloseIdleConnections() }

// Error is the engine's refusal.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return e.Message }

func IsStatus(err error, status int) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Status == status
}

// Ping finds the version of the API to speak.
func (e *Client) Ping(ctx context.Context) (version string, err error) {
	resp, err := e.Do(ctx, http.MethodGet, "/_ping", nil, "")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return "", e.Explain(ctx, err)
	}
	e.Podman = resp.Header.Get("Libpod-Api-Version") != ""
	offered := resp.Header.Get("Api-Version")
	if offered == "" || resp.StatusCode == http.StatusOK && strings.TrimSpace(string(text)) != "OK" {
		return "", e.NotAnEngine("it answers as something else does")
	}
	major, minor, _ := strings.Cut(offered, ".")
	n, err := strconv.Atoi(minor)
	if err != nil || major != "1" {
		return "", e.NotAnEngine(fmt.Sprintf("it names the version %q", offered))
	}
	if n < oldestAPI {
		return "", &sandbox.Unsupported{
			Guarantee: "engine", Reason: fmt.Sprintf("the engine speaks version 1.%d of its API, 1.%d is needed", n, oldestAPI),
			Fix: "install Docker Engine 20.10 or newer, or use --isolation native",
		}
	}
	return "v1." + strconv.Itoa(min(n, newestAPI)), nil
}

func (e *Client) NotAnEngine(why string) error {
	return &sandbox.Unsupported{Guarantee: "engine", Reason: e.socket + " is no Docker engine: " + why,
		Fix: "point DOCKER_HOST to the engine's socket, such as unix:///run/docker.sock"}
}

func (e *Client) Do(ctx context.Context, method, path string, body io.Reader, kind string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp, err := e.HTTP.Do(r)
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		if err = e.Explain(ctx, err); ok && op.Op == "dial" {
			err = &Unasked{err}
		}
		return nil, err
	}
	return resp, nil
}

// Unasked is why an engine was not reached: it was sent nothing.
type Unasked struct{ error }

func (e *Unasked) Unwrap() error { return e.error }

// Call asks for one thing. in and out may be nil.
func (e *Client) Call(ctx context.Context, method, path string, in, out any) error {
	within := e.Within
	var attended sync.WaitGroup
	defer attended.Wait()
	alive, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if method == http.MethodDelete {
		within = removeWithin
		attended.Go(func() { e.attend(alive, giveUp) })
	}
	ctx, cancel := context.WithTimeoutCause(alive, within, ErrNoAnswer)
	defer cancel()
	var body io.Reader
	kind := ""
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body, kind = bytes.NewReader(text), "application/json"
	}
	resp, err := e.Do(ctx, method, path, body, kind)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return e.Read(ctx, resp, out)
}

// attend gives up on an engine that answers nothing else meanwhile: what it removes
// may take long, and one that hangs removes nothing.
func (e *Client) attend(ctx context.Context, giveUp context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(e.Soon()):
		}
		within, cancel := context.WithTimeout(ctx, e.Soon())
		resp, err := e.Do(within, http.MethodGet, "/_ping", nil, "")
		if err == nil {
			resp.Body.Close()
		}
		if cancel(); err != nil {
			giveUp(ErrNoAnswer)
			return
		}
	}
}

// pingWithin bounds the first word: an engine that hangs answers nothing at all.
const pingWithin = 5 * time.Second

func (e *Client) Soon() time.Duration { return min(e.Within, pingWithin) }

var ErrNoAnswer = errors.New("the engine does not answer")

// MaxAnswer bounds what is read of an answer: the list of a thousand containers.
const MaxAnswer = 16 << 20

func (e *Client) Read(ctx context.Context, resp *http.Response, out any) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer))
	if err != nil {
		return e.Explain(ctx, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var said struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(text, &said) != nil || said.Message == "" {
			said.Message = resp.Status
		}
		return &Error{resp.StatusCode, said.Message}
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return e.NotAnEngine("its answer cannot be read: " + err.Error())
	}
	return nil
}

// Explain puts the ways in which a socket fails into words.
func (e *Client) Explain(ctx context.Context, err error) error {
	u := &sandbox.Unsupported{Guarantee: "engine"}
	var timeout net.Error
	switch {
	case errors.Is(context.Cause(ctx), ErrNoAnswer):
		u.Reason, u.Fix = "the engine at "+e.socket+" does not answer", "restart it, or use --isolation native"
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		u.Reason, u.Fix = "there is no engine at "+e.socket,
			"start Docker, point DOCKER_HOST to its socket, or use --isolation native"
	case errors.Is(err, fs.ErrPermission):
		u.Reason, u.Fix = "this user may not speak to the engine at "+e.socket,
			"join its group (usermod -aG docker USER, then log in again: that is as good as being root), or use "+
				"--isolation native"
	case errors.Is(err, syscall.ECONNREFUSED):
		u.Reason, u.Fix = "nobody listens at "+e.socket, "start Docker, or use --isolation native"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		u.Reason, u.Fix = "the engine at "+e.socket+" went away in the midst of an answer",
			"see why it ended (journalctl -u docker), then try again"
	case errors.As(err, &timeout) && timeout.Timeout():
		u.Reason = "the engine at " + e.socket + " does not answer"
	default:
		if wrong, ok := errors.AsType[*url.Error](err); ok {
			err = wrong.Err
		}
		return e.NotAnEngine(err.Error())
	}
	return u
}

// SocketOf reads DOCKER_HOST; "" means the usual place. Only a socket of this
// machine can be an engine that shares its files.
func SocketOf(host string) (string, error) {
	if host == "" {
		return "/run/docker.sock", nil
	}
	path, ok := strings.CutPrefix(host, "unix://")
	if !ok || !strings.HasPrefix(path, "/") {
		return "", &sandbox.Unsupported{Guarantee: "engine",
			Reason: fmt.Sprintf("DOCKER_HOST is %q, an engine that does not share this machine's files", host),
			Fix:    "point it to a socket of this machine: unix:///run/docker.sock"}
	}
	return path, nil
}
