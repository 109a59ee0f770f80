// Package objects is a bucket of objects, as a server sees it: a [Client] speaks to the program that has the
// connection (serve/objects/s3 in cloister-fleet), by net/rpc on one socket.
//
// The promise: a call ends with its context or within its bound, and an answer larger than what was asked for is
// ErrLarge. What an object has is not looked at here: the caller does not believe it.
//
// Most readers want [Client.Put] and [Client.Get].
package objects

import (
	"context"
	"errors"
	"io"
	"net/rpc"
	"sync"
	"time"
)

// Service is the name by which the methods are called, and Command that of cloister-fleet which has them.
const (
	Service = "Objects"
	Command = "objects"
)

// MostRemoved is how many objects one call removes.
const MostRemoved = 1000

// callWithin bounds a call, and what the program bounds itself is less. redial is how long after a connection that
// could not be made the next is tried.
const (
	callWithin = 3 * time.Minute
	redial     = 500 * time.Millisecond
)

// Errors of objects.
var (
	ErrMissing = errors.New("the bucket does not have it")
	ErrLarge   = errors.New("the bucket has something larger")
)

// Question is what is asked.
type Question struct {
	Name  string // of an object, or of a folder with a slash at its end
	Text  []byte
	Most  int
	Names []string
}

// Kind is why a question was not carried out.
type Kind uint8

// The closed set of kinds.
const (
	OK Kind = iota
	IsMissing
	IsLarge
	IsAway
)

// Answer is what is answered.
type Answer struct {
	Kind  Kind
	Why   string
	Text  []byte
	Names []string
}

// Client is one server's.
type Client struct {
	// Dial gives a connection to the program.
	Dial func(ctx context.Context) (io.ReadWriteCloser, error)

	mu     sync.Mutex
	rpc    *rpc.Client
	failed time.Time
	why    error
}

// Close lets go of the connection.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rpc != nil {
		_ = c.rpc.Close() // it may be closed
		c.rpc = nil
	}
}

// connection gives one that is open; one at a time dials.
func (c *Client) connection(ctx context.Context) (*rpc.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rpc != nil {
		return c.rpc, nil
	}
	if c.why != nil && time.Since(c.failed) < redial {
		return nil, c.why
	}
	conn, err := c.Dial(ctx)
	if c.why = err; err != nil {
		c.failed = time.Now()
		return nil, err
	}
	c.rpc = rpc.NewClient(conn)
	return c.rpc, nil
}

func (c *Client) call(ctx context.Context, method string, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	conn, err := c.connection(ctx)
	if err != nil {
		return Answer{}, err
	}
	var out Answer
	call := conn.Go(Service+"."+method, q, &out, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return Answer{}, ctx.Err() // out may be written to yet: it is not read
	}
	if call.Error != nil {
		c.mu.Lock()
		if c.rpc == conn {
			_ = conn.Close() // it failed
			c.rpc = nil
		}
		c.mu.Unlock()
		return Answer{}, call.Error
	}
	switch out.Kind {
	case OK:
		return out, nil
	case IsMissing:
		return out, ErrMissing
	case IsLarge:
		return out, ErrLarge
	case IsAway:
	}
	return out, errors.New(out.Why)
}

// Put writes an object, whatever was there.
func (c *Client) Put(ctx context.Context, name string, text []byte) error {
	_, err := c.call(ctx, "Put", Question{Name: name, Text: text})
	return err
}

// Get reads an object of at most so many bytes.
func (c *Client) Get(ctx context.Context, name string, most int) ([]byte, error) {
	out, err := c.call(ctx, "Get", Question{Name: name, Most: most})
	if err == nil && len(out.Text) > most {
		return nil, ErrLarge
	}
	return out.Text, err
}

// List gives the names right below a folder, those of folders with a slash at the end.
func (c *Client) List(ctx context.Context, folder string) ([]string, error) {
	out, err := c.call(ctx, "List", Question{Name: folder})
	return out.Names, err
}

// Remove removes objects.
func (c *Client) Remove(ctx context.Context, names ...string) error {
	_, err := c.call(ctx, "Remove", Question{Names: names})
	return err
}
