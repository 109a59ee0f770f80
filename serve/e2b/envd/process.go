package envd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"cloister/serve"
	"cloister/serve/connect"
	"cloister/serve/e2b/answer"
)

// The messages of process.Process, as their JSON has them.
type (
	ptyWire struct {
		Size *struct {
			Cols uint32 `json:"cols"`
			Rows uint32 `json:"rows"`
		} `json:"size"`
	}
	configWire struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args,omitempty"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  *string           `json:"cwd,omitempty"`
	}
	startWire struct {
		Process configWire `json:"process"`
		PTY     *ptyWire   `json:"pty"`
		Tag     *string    `json:"tag"`
		Stdin   *bool      `json:"stdin"`
	}
	selectorWire struct {
		PID *uint32 `json:"pid"`
		Tag *string `json:"tag"`
	}
	inputWire struct {
		Stdin []byte `json:"stdin"`
		PTY   []byte `json:"pty"`
	}
	processWire struct {
		Process selectorWire `json:"process"`
		PTY     *ptyWire     `json:"pty"`
		Input   inputWire    `json:"input"`
		Signal  signalWire   `json:"signal"`
	}
	infoWire struct {
		Config configWire `json:"config"`
		PID    uint32     `json:"pid"`
		Tag    *string    `json:"tag,omitempty"`
	}
	listWire struct {
		Processes []infoWire `json:"processes"`
	}
	eventWire struct {
		Event oneEvent `json:"event"`
	}
	oneEvent struct {
		Start     *startEvent `json:"start,omitempty"`
		Data      *dataEvent  `json:"data,omitempty"`
		End       *endEvent   `json:"end,omitempty"`
		KeepAlive *struct{}   `json:"keepalive,omitempty"`
	}
	startEvent struct {
		PID uint32 `json:"pid"`
	}
	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
		PTY    []byte `json:"pty,omitempty"`
	}
	endEvent struct {
		ExitCode int     `json:"exitCode"`
		Exited   bool    `json:"exited"`
		Status   string  `json:"status"`
		Error    *string `json:"error,omitempty"`
	}
	nothing struct{}
)

// signalWire is an enum, by name or by number.
type signalWire syscall.Signal

func (s *signalWire) UnmarshalJSON(text []byte) error {
	switch string(bytes.Trim(text, `"`)) {
	case "SIGNAL_SIGTERM", "15":
		*s = signalWire(syscall.SIGTERM)
	case "SIGNAL_SIGKILL", "9":
		*s = signalWire(syscall.SIGKILL)
	default:
		return fmt.Errorf("signal %s is not one of SIGNAL_SIGTERM, SIGNAL_SIGKILL", answer.Clip(string(text)))
	}
	return nil
}

var _ json.Unmarshaler = (*signalWire)(nil)

func (p *ptyWire) size() (cols, rows uint32) {
	if p == nil {
		return 0, 0
	}
	if p.Size == nil {
		return 80, 24
	}
	return max(p.Size.Cols, 1), max(p.Size.Rows, 1)
}

func (d *Service) processList(ctx context.Context, _ *http.Request, _ nothing) (listWire, error) {
	list, err := sandboxOf(ctx).Processes()
	out := listWire{Processes: []infoWire{}}
	for _, p := range list {
		c := p.Command
		out.Processes = append(out.Processes, infoWire{configWire{c.Cmd, c.Args, c.Env, &c.Dir}, p.PID, c.Tag})
	}
	return out, d.rpcError(err)
}

func (d *Service) processStart(ctx context.Context, r *http.Request, in *connect.Input, out *connect.Output) error {
	var q startWire
	if err := in.Next(&q); err != nil {
		return connect.Errorf(connect.InvalidArgument, "read the request: %v", err)
	}
	if err := checkUser(r); err != nil {
		return err
	}
	c := serve.Command{Cmd: q.Process.Cmd, Args: q.Process.Args, Env: q.Process.Envs, Tag: q.Tag}
	c.Stdin = q.Stdin == nil || *q.Stdin
	c.Dir = serve.Home
	if q.Process.Cwd != nil && *q.Process.Cwd != "" {
		c.Dir = resolve(*q.Process.Cwd)
	}
	if c.Cols, c.Rows = q.PTY.size(); q.PTY != nil {
		c.Env = withDefaults(c.Env)
	}
	s := sandboxOf(ctx)
	if err := d.folder(ctx, s, c.Dir); err != nil {
		return err
	}
	// The command outlives the connection of its client, but not the deadline.
	p, sub, err := s.Start(context.WithoutCancel(ctx), c)
	if err != nil {
		return d.rpcError(err)
	}
	return d.follow(ctx, r, s, p, sub, out, true)
}

// withDefaults adds what a terminal's programs look for.
func withDefaults(env map[string]string) map[string]string {
	out := map[string]string{"TERM": "xterm-256color"}
	maps.Copy(out, env)
	return out
}

// folder refuses a working folder that is none.
func (d *Service) folder(ctx context.Context, s *serve.Sandbox, dir string) error {
	if dir == serve.Home {
		return nil
	}
	pool, err := s.Files()
	if err != nil {
		return d.rpcError(err)
	}
	e, err := pool.Stat(ctx, dir)
	if err != nil || e.Kind != "dir" {
		return connect.Errorf(connect.InvalidArgument, "cwd '%s' does not exist", dir)
	}
	return nil
}

func (d *Service) processConnect(ctx context.Context, r *http.Request, in *connect.Input, out *connect.Output) error {
	var q processWire
	if err := in.Next(&q); err != nil {
		return connect.Errorf(connect.InvalidArgument, "read the request: %v", err)
	}
	s := sandboxOf(ctx)
	p, err := d.process(s, q.Process)
	if err != nil {
		return err
	}
	return d.follow(ctx, r, s, p, p.Subscribe(), out, false)
}

// keepAlive is how often a silent stream says that it lives, where the client does not.
const keepAlive = 50 * time.Second

func interval(r *http.Request) time.Duration {
	n, err := strconv.Atoi(r.Header.Get("Keepalive-Ping-Interval"))
	if err != nil || n < 1 || n > 3600 {
		return keepAlive
	}
	return time.Duration(n) * time.Second
}

// follow sends what a process writes until it ends. With own the deadline of the call is
// the process's too.
func (d *Service) follow(
	ctx context.Context, r *http.Request, s *serve.Sandbox, p *serve.Process, sub *serve.Subscription,
	out *connect.Output, own bool,
) error {
	defer sub.Leave()
	if err := out.Send(eventWire{oneEvent{Start: &startEvent{p.PID}}}); err != nil {
		return err
	}
	every := time.NewTicker(interval(r))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			if own && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				_ = p.Signal(syscall.SIGKILL) // an error means that it has ended
			}
			return ctx.Err()
		case <-every.C:
			if err := out.Send(eventWire{oneEvent{KeepAlive: &struct{}{}}}); err != nil {
				return err
			}
		case o, more := <-sub.Output():
			if !more {
				return d.ended(s, p, out)
			}
			if err := out.Send(eventWire{oneEvent{Data: data(o)}}); err != nil {
				return err
			}
		}
	}
}

func data(o serve.Output) *dataEvent {
	switch o.From {
	case serve.Stdout:
		return &dataEvent{Stdout: o.Data}
	case serve.Stderr:
		return &dataEvent{Stderr: o.Data}
	case serve.Terminal:
	}
	return &dataEvent{PTY: o.Data}
}

// ended sends how a process has ended. Of a sandbox that was ended the stream is cut: the
// SDKs look then whether it is alive.
func (d *Service) ended(s *serve.Sandbox, p *serve.Process, out *connect.Output) error {
	status, err := p.Status()
	if s.Record().State != serve.Running {
		return connect.ErrAbort
	}
	if err != nil {
		return d.rpcError(err)
	}
	e := &endEvent{ExitCode: status.Code, Exited: status.Signal == 0, Status: "exit status " + strconv.Itoa(status.Code)}
	if status.Signal > 0 {
		e.ExitCode, e.Status = -1, "signal: "+syscall.Signal(status.Signal).String()
	}
	if e.ExitCode != 0 {
		e.Error = &e.Status
	}
	return out.Send(eventWire{oneEvent{End: e}})
}

// process gives the process that a client selects.
func (d *Service) process(s *serve.Sandbox, q selectorWire) (*serve.Process, error) {
	var pid uint32
	var tag string
	switch {
	case q.PID != nil:
		pid = *q.PID
	case q.Tag != nil && *q.Tag != "":
		tag = *q.Tag
	default:
		return nil, connect.Errorf(connect.InvalidArgument, "the request selects no process")
	}
	p, err := s.Process(pid, tag)
	if errors.Is(err, serve.ErrNoProcess) {
		err = connect.Errorf(connect.NotFound, "process with pid %d not found", pid)
	}
	return p, d.rpcError(err)
}

func (d *Service) processUpdate(ctx context.Context, _ *http.Request, q processWire) (nothing, error) {
	p, err := d.process(sandboxOf(ctx), q.Process)
	if err == nil && q.PTY != nil {
		err = d.rpcError(p.Resize(q.PTY.size()))
	}
	return nothing{}, err
}

func (d *Service) processInput(ctx context.Context, _ *http.Request, q processWire) (nothing, error) {
	p, err := d.process(sandboxOf(ctx), q.Process)
	if err == nil {
		err = d.rpcError(p.Write(append(q.Input.Stdin, q.Input.PTY...)))
	}
	return nothing{}, err
}

// processStreamInput reads a stream of input in its order.
func (d *Service) processStreamInput(ctx context.Context, _ *http.Request, in *connect.Input,
	out *connect.Output) error {
	var p *serve.Process
	for {
		var q struct {
			Start *struct {
				Process selectorWire `json:"process"`
			} `json:"start"`
			Data *struct {
				Input inputWire `json:"input"`
			} `json:"data"`
		}
		err := in.Next(&q)
		switch {
		case errors.Is(err, io.EOF):
			return out.Send(nothing{})
		case err != nil:
			return err
		case q.Start != nil:
			p, err = d.process(sandboxOf(ctx), q.Start.Process)
		case q.Data != nil && p == nil:
			err = connect.Errorf(connect.InvalidArgument, "the first message selects no process")
		case q.Data != nil:
			err = d.rpcError(p.Write(append(q.Data.Input.Stdin, q.Data.Input.PTY...)))
		}
		if err != nil {
			return err
		}
	}
}

func (d *Service) processSignal(ctx context.Context, _ *http.Request, q processWire) (nothing, error) {
	if q.Signal == 0 {
		return nothing{}, connect.Errorf(connect.InvalidArgument, "the request names no signal")
	}
	p, err := d.process(sandboxOf(ctx), q.Process)
	if err == nil {
		err = d.rpcError(p.Signal(syscall.Signal(q.Signal)))
	}
	return nothing{}, err
}

func (d *Service) processCloseStdin(ctx context.Context, _ *http.Request, q processWire) (nothing, error) {
	p, err := d.process(sandboxOf(ctx), q.Process)
	if err == nil {
		err = d.rpcError(p.CloseInput())
	}
	return nothing{}, err
}
