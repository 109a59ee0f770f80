// Package hoard has peers that make whoever stands between them hold memory.
//
// Promise: each kind of client asks for what costs an intermediary most and then takes
// or gives nothing more, as long as it is told to; its server answers without end, or
// reads nothing. A Relay is an intermediary of the standard library alone, which bounds
// none of it: what the peers do to that is the control.
//
// It measures nothing, and checks no certificate.
//
// Most readers want [Kinds], then [Client] and [Serve].
package hoard

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A Kind is what a client does on each of its connections.
type Kind struct {
	Name, Does string
	run        func(c *conn)
	plain      bool // it speaks no TLS that is finished
	http1      bool
}

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		{Name: "unread", Does: "asks for 100 answers without end by HTTP/2, with the widest windows, and reads nothing", run: (*conn).unread},
		{Name: "window", Does: "the same with windows of zero, which it never opens", run: (*conn).window},
		{Name: "unfinished", Does: "begins 100 bodies by HTTP/2 to a server that reads none, and ends none", run: (*conn).unfinished},
		{Name: "heads", Does: "sends 100 requests with heads of 48 KiB, which the server never answers", run: (*conn).manyHeads},
		{Name: "continued", Does: "begins a head by HTTP/2 that never ends", run: (*conn).continued},
		{Name: "answers", Does: "asks for 100 answers with heads of 48 KiB, and reads nothing", run: (*conn).answers},
		{Name: "pings", Does: "sends pings and settings, and reads no answer", run: (*conn).pings},
		{Name: "resets", Does: "begins requests and takes each back at once", run: (*conn).resets},
		{Name: "unread-1", Does: "asks for an answer without end by HTTP/1.1, and reads nothing", run: (*conn).unread1, http1: true},
		{Name: "unfinished-1", Does: "begins a body by HTTP/1.1 to a server that reads none, and does not end it", run: (*conn).unfinished1, http1: true},
		{Name: "head-1", Does: "sends 60 KiB of a head by HTTP/1.1, and not its end", run: (*conn).head1, http1: true},
		{Name: "hello", Does: "sends 15 KiB of a ClientHello, and not its end", run: (*conn).hello, plain: true},
	}
}

// Asking are two more kinds, for a path about which a person is asked. Their bodies are so
// short that a question shows them whole.
func Asking() []Kind {
	return []Kind{
		{Name: "asked", Does: "sends 100 bodies of 48 KiB by HTTP/2, about each of which a person is asked", run: (*conn).asked},
		{Name: "asked-1", Does: "sends a body of 48 KiB by HTTP/1.1, about which a person is asked", run: (*conn).asked1, http1: true},
	}
}

// streams is how many requests are under way on each connection of HTTP/2.
const streams = 100

// Serve answers the paths that clients ask for, after the last slash: nothing for all
// others, and false.
func Serve(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] {
	case "endless":
		block := make([]byte, 32<<10)
		for {
			if _, err := w.Write(block); err != nil {
				return true
			}
		}
	case "deaf":
		<-r.Context().Done()
	case "head":
		for _, name := range []string{"X-A", "X-B", "X-C", "X-D", "X-E", "X-F"} {
			w.Header().Set(name, strings.Repeat(name[2:], 8<<10))
		}
		<-hold(r.Context(), w)
	default:
		return false
	}
	return true
}

// hold sends the head, and stays.
func hold(ctx context.Context, w http.ResponseWriter) <-chan struct{} {
	_ = http.NewResponseController(w).Flush() // who asked may be gone
	return ctx.Done()
}

// Client opens n connections of a kind to an address by TLS for a name, for that long or
// until the context ends. It says on how many the peer still was at the end.
func Client(ctx context.Context, kind Kind, addr, name, path string, n int, lasts time.Duration) (stayed int) {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	turn := make(chan struct{}, 32)
	for range n {
		wait.Go(func() {
			turn <- struct{}{}
			c, err := dial(ctx, kind, addr, name)
			<-turn
			if err != nil {
				return
			}
			defer c.Close()
			c.path = path
			stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
			defer stop()
			if kind.run(c); c.failed() == nil || ctx.Err() != nil {
				mu.Lock()
				stayed++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return stayed
}

// A conn is one connection of a client.
type conn struct {
	net.Conn
	ctx        context.Context // ends when the client goes
	name, path string
	frames     *http2.Framer
	heads      bytes.Buffer
	pack       *hpack.Encoder

	mu  sync.Mutex
	err error
}

func dial(ctx context.Context, kind Kind, addr, name string) (*conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, ctx: ctx, name: name}
	if kind.plain {
		return c, nil
	}
	proto := "h2"
	if kind.http1 {
		proto = "http/1.1"
	}
	t := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{proto}}) // an attacker looks at no certificate
	if err := t.HandshakeContext(ctx); err != nil || t.ConnectionState().NegotiatedProtocol != proto {
		_ = raw.Close()
		return nil, errors.Join(errors.New("no "+proto), err)
	}
	c.Conn, c.frames = t, http2.NewFramer(t, t)
	c.pack = hpack.NewEncoder(&c.heads)
	return c, nil
}

// do keeps the first error.
func (c *conn) do(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

func (c *conn) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// stay waits for the client's end.
func (c *conn) stay() { <-c.ctx.Done() }

// drain reads all that comes, and does nothing about it.
func (c *conn) drain() {
	_, err := io.Copy(io.Discard, c.Conn)
	c.do(err)
}
