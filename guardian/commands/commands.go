// Package commands remembers the host commands of one run of the guardian.
//
// Promise: of each there is what it was and the end of what it wrote, rendered;
// memory is bounded, however much a command writes.
//
// It starts nothing, ends nothing and writes nothing down: the record has the
// commands too, without what they wrote.
//
// Most readers want [List.Begin].
package commands

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"cloister/api"
	"cloister/guardian/events"
	"cloister/internal/termsafe"
)

const (
	// maxCommands bounds the host commands that are remembered, keptOutput what
	// each wrote, in bytes.
	maxCommands = 100
	keptOutput  = 64 << 10
	// tellEvery is how often watchers are notified of a command that writes.
	tellEvery = 150 * time.Millisecond
	// maxShown bounds each text of one, in bytes.
	maxShown = 2 << 10
)

// List is what the window shows.
type List struct {
	bus *events.Bus

	mu   sync.Mutex
	next int
	list []*Command // oldest first
}

// New is the list of a guardian that has just begun, which tells of them on a bus.
func New(bus *events.Bus) *List { return &List{bus: bus} }

// Command is one of them.
type Command struct {
	all  *List
	info api.HostCommand

	parts     []part
	size      int // bytes of parts
	announced time.Time
	due       *time.Timer
}

// part is what was written at once.
type part struct {
	isErr bool
	text  []byte
}

// Begin enters one that runs now.
func (c *List) Begin(session, line, dir string) *Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	one := &Command{all: c, info: api.HostCommand{
		ID: strconv.Itoa(c.next), Session: termsafe.Text(session), Line: termsafe.Text(termsafe.Clip(line, maxShown)),
		Dir:   termsafe.Text(dir),
		State: "running", StartedAt: time.Now(),
	}}
	c.list = append(c.list, one)
	if len(c.list) > maxCommands {
		c.list = append([]*Command(nil), c.list[len(c.list)-maxCommands:]...)
	}
	c.bus.Publish(api.EventCommand, one.info)
	return one
}

// Write keeps the end of what it writes.
func (o *Command) Write(isErr bool, p []byte) {
	c := o.all
	c.mu.Lock()
	defer c.mu.Unlock()
	o.info.Bytes += int64(len(p))
	if n := len(o.parts); n > 0 && o.parts[n-1].isErr == isErr && len(o.parts[n-1].text) < 4<<10 {
		o.parts[n-1].text = append(o.parts[n-1].text, p...)
	} else {
		o.parts = append(o.parts, part{isErr, append([]byte(nil), p...)})
	}
	for o.size += len(p); o.size > keptOutput && len(o.parts) > 1; {
		o.size -= len(o.parts[0].text)
		o.info.Cut += int64(len(o.parts[0].text))
		o.parts = o.parts[1:]
	}
	// Now, or once in a while.
	if since := time.Since(o.announced); since >= tellEvery {
		o.tell()
	} else if o.due == nil {
		o.due = time.AfterFunc(tellEvery-since, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			o.due = nil
			o.tell()
		})
	}
}

func (o *Command) tell() {
	o.announced = time.Now()
	o.all.bus.Publish(api.EventCommand, o.info)
}

// End says how it ended.
func (o *Command) End(status int, why string) {
	c := o.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.due != nil {
		o.due.Stop()
		o.due = nil
	}
	o.info.State, o.info.Status, o.info.Why, o.info.EndedAt = "ended", status, termsafe.Text(termsafe.Clip(why, maxShown)),
		time.Now()
	o.tell()
}

// All lists them, the latest first.
func (c *List) All() []api.HostCommand {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]api.HostCommand, 0, len(c.list))
	for _, o := range slices.Backward(c.list) {
		out = append(out, o.info)
	}
	return out
}

// Find is one of them, with the end of its output.
func (c *List) Find(id string) (api.HostCommand, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.list {
		if o.info.ID != id {
			continue
		}
		out := o.info
		for _, p := range o.parts {
			out.Output = append(out.Output, api.OutputPart{Err: p.isErr, Text: termsafe.Lines(string(p.text))})
		}
		return out, true
	}
	return api.HostCommand{}, false
}
