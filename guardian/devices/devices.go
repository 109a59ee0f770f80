// Package devices brings paired phones the questions that wait, and their answers to the
// queue.
//
// The promise: a device answers for once and denies, and nothing else; what it answers
// says what its page showed; pairing and unpairing are in the record before they are so.
// Who may pair is the guardian's table of routes to say: its owner alone.
//
// It keeps no keys and speaks to no browser (room ui/phone does).
//
// Most readers want [Open].
package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/guardian/question"
	"cloister/guardian/requests"
	"cloister/ui/phone"
)

// Options of Open.
type Options struct {
	State  string // the folder of state
	Queue  *approval.Queue
	Record func(context.Context, audit.Event) error
	Log    *slog.Logger
	Notice func(string)
}

// Service is the devices of one guardian.
type Service struct {
	o    Options
	door *phone.Door
	ctx  context.Context
}

// Open listens for devices where some are paired; ctx is the guardian's life.
func Open(ctx context.Context, o Options) *Service {
	s := &Service{o: o, ctx: ctx}
	var err error
	if s.door, err = phone.Open(ctx, o.State, desk{o.Queue}, o.Log); err != nil {
		o.Notice(err.Error())
	}
	return s
}

// Close ends it.
func (s *Service) Close() { s.door.Close() }

// List answers with the devices.
func (s *Service) List(*http.Request) (any, error) {
	list, url, at := s.door.Devices()
	out := api.Devices{URL: url, At: at, Devices: []api.Device{}}
	for _, d := range list {
		out.Devices = append(out.Devices, wire(d))
	}
	return out, nil
}

func wire(d phone.Device) api.Device {
	return api.Device{Name: d.Name, Key: d.ID()[:8], Added: d.Added, Used: d.Used}
}

// Pair makes a code.
func (s *Service) Pair(r *http.Request) (any, error) {
	req, err := requests.Read[api.PairRequest](r)
	if err != nil {
		return nil, err
	}
	o, err := s.door.Pair(s.ctx, req.Name, req.URL)
	if err != nil {
		return nil, api.BadRequest("pair: %v", err)
	}
	return pairing(o), nil
}

func pairing(o phone.Offer) api.Pairing {
	return api.Pairing{URL: o.URL, At: o.At, State: o.State, Code: o.Code, ExpiresAt: o.Ends}
}

// Pairing answers how a pairing stands.
func (s *Service) Pairing(*http.Request) (any, error) { return pairing(s.door.Pairing()), nil }

// Finish takes the person's word on the device that waits.
func (s *Service) Finish(r *http.Request) (any, error) {
	req, err := requests.Read[api.PairWord](r)
	if err != nil {
		return nil, err
	}
	if req.Code == "" {
		s.door.Cancel()
		return api.Device{}, nil
	}
	d, err := s.door.Confirm(req.Code, func(d phone.Device) error { return s.record(r, audit.DevicePair, "pair", d) })
	if err != nil {
		return nil, api.BadRequest("pair: %v", err)
	}
	return wire(d), nil
}

// Unpair forgets a device.
func (s *Service) Unpair(r *http.Request) (any, error) {
	name := r.PathValue("name")
	d, err := s.door.Unpair(name, func(d phone.Device) error { return s.record(r, audit.DeviceRemove, "remove", d) })
	if errors.Is(err, phone.ErrNoDevice) {
		return nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("unpair %q: no such device", name), Hints: []string{"cloister window devices lists them"}}
	}
	if err != nil {
		return nil, fmt.Errorf("unpair: %w", err)
	}
	return wire(d), nil
}

func (s *Service) record(r *http.Request, kind audit.Kind, action string, d phone.Device) error {
	return s.o.Record(context.WithoutCancel(r.Context()), audit.Event{
		Kind: kind, Action: action, Resource: d.Name, Reason: "key " + d.ID()[:8], Verdict: "allow",
	})
}

// desk gives devices what waits.
type desk struct{ queue *approval.Queue }

// shown is what a device shows of a question: nothing that changes while it waits.
type shown struct {
	ID      string               `json:"id"`
	Nonce   string               `json:"nonce"`
	Session string               `json:"session"`
	Project string               `json:"project"`
	Kind    string               `json:"kind"`
	Title   string               `json:"title"`
	Subject string               `json:"subject"`
	Details []api.ApprovalDetail `json:"details"`
	Reason  string               `json:"reason"`
	Digest  string               `json:"digest,omitempty"`
	Marks   string               `json:"marks,omitempty"`
}

func of(i approval.Item) phone.Question {
	a := question.Shown(i)
	text, _ := json.Marshal(shown{a.ID, a.Nonce, a.Session, a.Project, a.Kind, a.Title, a.Subject, a.Details, a.Reason,
		a.Digest, a.Marks}) // texts alone: it cannot fail
	return phone.Question{ID: i.ID, Text: string(text)}
}

func (d desk) Waiting() []phone.Question {
	var out []phone.Question
	for _, i := range d.queue.Pending() {
		out = append(out, of(i))
	}
	return out
}

func (d desk) Watch() (leave func()) { return d.queue.Watch("") }

func (d desk) Answer(ctx context.Context, by phone.Device, id, digest string, allow bool) error {
	i, err := d.queue.Find(id)
	switch {
	case err != nil:
		return err
	case of(i).Digest() != digest:
		return errors.New("the question is another than the one that was shown")
	case allow && i.Marks != "":
		return fmt.Errorf("it holds %s: allow it at the computer", i.Marks)
	}
	_, err = d.queue.Answer(ctx, id, approval.Reply{
		Allow: allow, Scope: approval.Once, Nonce: i.Nonce,
		By: fmt.Sprintf("uid %d via device %s (%s)", os.Getuid(), by.Name, by.ID()[:8]),
	})
	return err
}
