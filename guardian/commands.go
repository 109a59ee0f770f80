package guardian

import (
	"fmt"
	"net/http"
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
	// tellEvery is how often those who watch hear of a command that writes.
	tellEvery = 150 * time.Millisecond
)

// commands are the host commands of this run of the guardian, for the window. The
// record has them too, without what they wrote.
type commands struct {
	bus *events.Bus

	mu   sync.Mutex
	next int
	list []*command // oldest first
}

// command is one of them.
type command struct {
	all  *commands
	info api.HostCommand

	parts []part
	size  int // bytes of parts
	told  time.Time
	due   *time.Timer
}

// part is what was written at once.
type part struct {
	isErr bool
	text  []byte
}

func (c *commands) begin(session, line, dir string) *command {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	one := &command{all: c, info: api.HostCommand{
		ID: strconv.Itoa(c.next), Session: termsafe.Text(session), Line: termsafe.Text(termsafe.Clip(line, maxShown)), Dir: termsafe.Text(dir),
		State: "running", StartedAt: time.Now(),
	}}
	c.list = append(c.list, one)
	if len(c.list) > maxCommands {
		c.list = append([]*command(nil), c.list[len(c.list)-maxCommands:]...)
	}
	c.bus.Publish(api.EventCommand, one.info)
	return one
}

func (o *command) write(isErr bool, p []byte) {
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
	if since := time.Since(o.told); since >= tellEvery {
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

func (o *command) tell() {
	o.told = time.Now()
	o.all.bus.Publish(api.EventCommand, o.info)
}

func (o *command) end(status int, why string) {
	c := o.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.due != nil {
		o.due.Stop()
		o.due = nil
	}
	o.info.State, o.info.Status, o.info.Why, o.info.EndedAt = "ended", status, termsafe.Text(termsafe.Clip(why, maxShown)), time.Now()
	o.tell()
}

func (g *guardian) getCommands(http.ResponseWriter, *http.Request) (any, error) {
	c := g.commands
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]api.HostCommand, 0, len(c.list))
	for _, o := range slices.Backward(c.list) {
		out = append(out, o.info)
	}
	return out, nil
}

func (g *guardian) getCommand(_ http.ResponseWriter, r *http.Request) (any, error) {
	c := g.commands
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.list {
		if o.info.ID != r.PathValue("id") {
			continue
		}
		out := o.info
		for _, p := range o.parts {
			out.Output = append(out.Output, api.OutputPart{Err: p.isErr, Text: termsafe.Lines(string(p.text))})
		}
		return out, nil
	}
	return nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: fmt.Sprintf("no host command %q since the guardian began", termsafe.Clip(r.PathValue("id"), 20))}
}
