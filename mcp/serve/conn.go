package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"cloister/mcp"
)

// A conn is the conversation with one client.
type conn struct {
	server *server
	tools  []tool

	mu     sync.Mutex // held while a line is written
	out    io.Writer
	broken bool // a write failed: the client is gone

	calls   sync.WaitGroup
	guard   sync.Mutex
	waiting map[string]context.CancelFunc // by id
	over    bool
	begun   bool // initialize has been answered; of the reading goroutine alone
}

// read takes the client's lines until there are no more. Each request is answered; a line
// that is no message is answered with an error that has no id.
func (c *conn) read(ctx context.Context, in io.Reader) error {
	from := bufio.NewReaderSize(in, 64<<10)
	for ctx.Err() == nil {
		line, err := mcp.ReadLine(from, maxFrame)
		if _, long := errors.AsType[*mcp.LongLine](err); long { // nothing after it can be trusted to be a message
			c.answer(response{Error: &problem{codeParse, "cloister cannot read this: " + err.Error()}})
			return nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			c.message(ctx, line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the client: %w", err)
		}
	}
	return nil
}

// message handles one line.
func (c *conn) message(ctx context.Context, line []byte) {
	bad := func(code int, why error) {
		c.answer(response{Error: &problem{code, "cloister cannot read this: " + why.Error()}})
	}
	if err := mcp.Strict(line); err != nil {
		bad(codeParse, err)
		return
	}
	m, err := members(line)
	if err != nil {
		bad(codeInvalidRequest, err)
		return
	}
	method, err := word(m, "method")
	if err != nil {
		bad(codeInvalidRequest, err)
		return
	}
	id, request := m["id"]
	switch {
	case string(m["jsonrpc"]) != `"2.0"`:
		bad(codeInvalidRequest, errors.New(`it is no message of JSON-RPC "2.0"`))
	case method == "": // an answer, and this server asks nothing
	case !request:
		c.notified(method, m["params"])
	case id[0] != '"' && !isInteger(id):
		bad(codeInvalidRequest, errors.New("its id is neither a string nor an integer"))
	default:
		c.request(ctx, id, method, m["params"])
	}
}

// notified takes the one notification that means something here: a request's answer is
// wanted no more.
func (c *conn) notified(method string, params json.RawMessage) {
	if method != "notifications/cancelled" {
		return
	}
	m, err := members(params)
	if err != nil {
		return
	}
	c.guard.Lock()
	defer c.guard.Unlock()
	if cancel := c.waiting[string(m["requestId"])]; cancel != nil {
		cancel()
	}
}

// request answers a request, calls of tools beside the reading.
func (c *conn) request(ctx context.Context, id json.RawMessage, method string, params json.RawMessage) {
	var result any
	var err error
	switch {
	case method == "ping":
		result = struct{}{}
	case method == "initialize":
		result, err = c.initialize(params)
	case !c.begun:
		err = wrong(codeInvalidRequest, "initialize comes first")
	case method == "tools/list":
		result = map[string]any{"tools": c.tools}
	case method == "tools/call":
		c.call(ctx, id, params)
		return
	default:
		err = wrong(codeNoMethod, "there is no method %q", method)
	}
	c.reply(id, result, err)
}

func (c *conn) initialize(params json.RawMessage) (any, error) {
	m, err := members(params)
	if err != nil {
		return nil, wrong(codeInvalidParams, "initialize: params: %v", err)
	}
	version, err := word(m, "protocolVersion")
	switch {
	case err != nil:
		return nil, wrong(codeInvalidParams, "initialize: %v", err)
	case c.begun:
		return nil, wrong(codeInvalidRequest, "initialize was answered before")
	case !slices.Contains(versions, version):
		version = versions[0] // the client decides whether that is one of its own
	}
	c.begun = true
	o := c.server.o
	return struct {
		Version      string         `json:"protocolVersion"`
		Capabilities map[string]any `json:"capabilities"`
		Server       any            `json:"serverInfo"`
		Instructions string         `json:"instructions"`
	}{version, map[string]any{"tools": struct{}{}}, struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Version string `json:"version"`
	}{"cloister", "Cloister", o.Version}, instructions(o.Cloister.Dir())}, nil
}

// call begins a call of a tool.
func (c *conn) call(ctx context.Context, id, params json.RawMessage) {
	m, err := members(params)
	if err != nil {
		c.reply(id, nil, wrong(codeInvalidParams, "tools/call: params: %v", err))
		return
	}
	name, err := word(m, "name")
	i := slices.IndexFunc(c.tools, func(t tool) bool { return t.Name == name })
	switch {
	case err != nil:
		err = wrong(codeInvalidParams, "tools/call: %v", err)
	case i < 0:
		err = wrong(codeInvalidParams, "there is no tool %q", name)
	}
	if err != nil {
		c.reply(id, nil, err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if err := c.enter(id, cancel); err != nil {
		cancel()
		c.reply(id, nil, err)
		return
	}
	go func() {
		defer c.calls.Done()
		defer cancel()
		result, err := c.tools[i].call(ctx, request{name, m["arguments"]})
		c.leave(id)
		if ctx.Err() == nil {
			c.reply(id, result, err)
		}
	}()
}

// enter notes a call as under way, until its goroutine is done with it.
func (c *conn) enter(id json.RawMessage, cancel context.CancelFunc) error {
	c.guard.Lock()
	defer c.guard.Unlock()
	switch {
	case c.over:
		return wrong(codeInternal, "the cloister ends")
	case c.waiting[string(id)] != nil:
		return wrong(codeInvalidRequest, "a call of that id is under way")
	case len(c.waiting) >= maxRequests:
		return wrong(codeInvalidRequest, "%d calls are under way, which is the most", maxRequests)
	}
	c.waiting[string(id)] = cancel
	c.calls.Add(1)
	return nil
}

// end lets no further call begin, and waits for those under way.
func (c *conn) end() {
	c.guard.Lock()
	c.over = true
	c.guard.Unlock()
	c.calls.Wait()
}

func (c *conn) leave(id json.RawMessage) {
	c.guard.Lock()
	defer c.guard.Unlock()
	delete(c.waiting, string(id))
}

// reply answers a request. An error that is none of the protocol's is an answer for the
// model that called the tool.
func (c *conn) reply(id json.RawMessage, result any, err error) {
	if err == nil {
		c.answer(response{ID: id, Result: result})
		return
	}
	if p, ok := errors.AsType[*problem](err); ok {
		c.answer(response{ID: id, Error: p})
		return
	}
	c.answer(response{ID: id, Result: toolResult{Content: []textContent{{"text", err.Error()}}, IsError: true}})
}

// answer writes one line.
func (c *conn) answer(r response) {
	r.Version = "2.0"
	if r.ID == nil {
		r.ID = json.RawMessage("null")
	}
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		line.Reset()
		_ = e.Encode(response{Version: "2.0", ID: r.ID, Error: &problem{codeInternal, err.Error()}})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return
	}
	_, err := c.out.Write(line.Bytes())
	c.broken = err != nil // a client that is gone ends the input too
}
