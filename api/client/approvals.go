package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloister/api"
)

// Approvals lists what waits for a person and, with all, what ended.
func (c *Client) Approvals(ctx context.Context, all bool) ([]api.Approval, error) {
	path := api.PathApprovals
	if all {
		path += "?all=1"
	}
	return ask[[]api.Approval](ctx, c, http.MethodGet, path, nil)
}

// Approval finds one question by its ID, or by how it begins.
func (c *Client) Approval(ctx context.Context, id string) (api.Approval, error) {
	return ask[api.Approval](ctx, c, http.MethodGet, api.PathApprovals+"/"+url.PathEscape(id), nil)
}

// Answer gives a person's word on one question. Code is CodeOver when someone
// else was first, CodeConfirm when the person has to look again.
func (c *Client) Answer(ctx context.Context, id string, allow bool, reply api.ApprovalReply) (api.Approval, error) {
	verb := "/deny"
	if allow {
		verb = "/approve"
	}
	return ask[api.Approval](ctx, c, http.MethodPost, api.PathApprovals+"/"+url.PathEscape(id)+verb, reply)
}

// Decisions lists the remembered answers, newest first.
func (c *Client) Decisions(ctx context.Context) ([]api.Decision, error) {
	return ask[[]api.Decision](ctx, c, http.MethodGet, api.PathDecisions, nil)
}

// Undo takes a remembered answer back.
func (c *Client) Undo(ctx context.Context, id, via string) (api.Decision, error) {
	return ask[api.Decision](ctx, c, http.MethodPost, api.PathDecisions+"/"+url.PathEscape(id)+"/undo",
		api.ApprovalReply{Via: via})
}

// maxEvent bounds one event: an approval with everything that it shows.
const maxEvent = 1 << 20

// silence is how long a stream may say nothing before it counts as broken: the
// guardian writes every 15 s.
const silence = 40 * time.Second

// Events calls yield for each event until ctx ends, yield says false or the
// stream breaks. last is the ID of the last event that the caller saw, "" for a
// new reader. While it runs someone watches: the guardian holds asks for an
// answer instead of refusing them.
func (c *Client) Events(ctx context.Context, last string, yield func(api.Event) bool) error {
	return c.events(ctx, api.PathEvents, last, yield)
}

// EventsRecorded is Events with what is recorded besides.
func (c *Client) EventsRecorded(ctx context.Context, last string, yield func(api.Event) bool) error {
	return c.events(ctx, api.PathEvents+"?audit=1", last, yield)
}

// EventsOf is Events for someone who watches one session alone.
func (c *Client) EventsOf(ctx context.Context, session string, yield func(api.Event) bool) error {
	return c.events(ctx, api.PathEvents+"?session="+url.QueryEscape(session), "", yield)
}

func (c *Client) events(ctx context.Context, path, last string, yield func(api.Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := newRequest(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("watch events: %w", unwrapURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	alive := time.AfterFunc(silence, cancel)
	defer alive.Stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	var e api.Event
	for lines.Scan() {
		alive.Reset(silence)
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Type = value
		case "data":
			e.Data = json.RawMessage(value)
		case "":
			if e.Type != "" && !yield(e) {
				return nil
			}
			e = api.Event{}
		}
	}
	return fmt.Errorf("watch events: %w", errors.Join(lines.Err(), ErrGuardianGone))
}
