package beside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/api"
	"cloister/devcontainer/services"
	"cloister/internal/exactjson"
	"cloister/session/inside"
)

// await waits until services are as one that depends on them wants it.
func (s *Set) await(ctx context.Context, list []services.Dependency) error {
	for _, d := range list {
		at := slices.IndexFunc(s.list, func(r *running) bool { return r.Name == d.Service })
		if at < 0 {
			continue // the agent, or one that is not to be started
		}
		r := s.list[at]
		switch d.Condition {
		case services.Healthy:
			if err := s.healthy(ctx, r); err != nil {
				return err
			}
		case services.Completed:
			select {
			case <-r.gone:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if r.err != nil || r.res.Status.ExitCode() != 0 {
				return ended(r)
			}
		}
	}
	return nil
}

// ended is the failure of a service that ended.
func ended(r *running) error {
	why := "ended with status " + strconv.Itoa(r.res.Status.ExitCode())
	return &Failure{Service: r.Service, Session: r.session, Why: why, Err: r.err, Last: r.log.last()}
}

// The times of a health check: a service is asked more often than it says while its agent
// waits, which counts as one attempt for each of its intervals.
const (
	firstAsk = 200 * time.Millisecond
	askEvery = time.Second
)

// healthy waits until a service with a health check says that it is well. Of one without it
// is enough that it was started: its end is reported, whenever it is.
func (s *Set) healthy(ctx context.Context, r *running) error {
	h := health(r.Service)
	if h == nil {
		return nil
	}
	info := r.spec
	info.Files, info.Links, info.Argv = nil, nil, nil
	text, err := exactjson.Marshal(info)
	if err != nil {
		return err
	}
	runner, err := inside.New(s.driver, api.ExecInfo{SessionInfo: api.SessionInfo{Handle: string(r.box)}, Exec: text})
	if err != nil {
		return err
	}
	wait := min(firstAsk, h.Interval)
	for until := time.Now().Add(h.StartDelay + time.Duration(max(1, h.Retries))*max(h.Interval, askEvery)); ; {
		said, err := ask(ctx, runner, h)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		select {
		case <-r.gone:
			return ended(r)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		if time.Now().After(until) {
			last := strings.TrimSpace(r.log.last() + "\n" + said)
			return &Failure{Service: r.Service, Session: r.session, Why: "is not healthy", Err: err, Last: last}
		}
		wait = min(2*wait, askEvery, max(h.Interval, firstAsk))
	}
}

// ask runs the check once.
func ask(ctx context.Context, runner *inside.Runner, h *services.Health) (said string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, max(h.Timeout, time.Second), errors.New("its check takes too long"))
	defer cancel()
	var out tail
	status, err := runner.Run(ctx, inside.Command{Argv: h.Test, Stdout: &out, Stderr: &out})
	if err == nil && status.ExitCode() != 0 {
		err = fmt.Errorf("its check ended with status %d", status.ExitCode())
	}
	return out.text(), err
}
