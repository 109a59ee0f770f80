package database

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"sync"
	"time"

	"cloister/serve/tenants"
)

// Options are what a Client depends on.
type Options struct {
	// Dial gives a connection to the program that has the database's.
	Dial func(ctx context.Context) (io.ReadWriteCloser, error)
	// Server is the place that this server has, empty for a command, which has no sandboxes.
	Server string
	// Address is how other servers reach this one.
	Address string
	// Lease is how long this server may be out of touch before others take over.
	Lease time.Duration
}

// Bounds of a call, and how often the lease is looked at.
const (
	callWithin = 8 * time.Second
	beatEvery  = 250 * time.Millisecond
	redial     = 500 * time.Millisecond
	lookEvery  = 2 * time.Second // for servers that are out of touch
)

// Client is one server's, or one command's.
type Client struct {
	Options
	me Server

	dialing sync.Mutex // one at a time dials
	mu      sync.Mutex
	rpc     *rpc.Client
	failed  time.Time // when dialling failed last
	why     error
	until   time.Time // the lease holds, by this process's monotonic clock
	touched error     // of the last beat
	has     Register
	beating bool
	stale   bool // the lease had been over, and what became another server's is not let go of yet
}

// New gives a client that has asked nothing yet.
func New(o Options) *Client {
	return &Client{Options: o, me: Server{o.Server, rand.Text()}, has: Register{Revision: -1}}
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

// ID is the place of this server.
func (c *Client) ID() string { return c.me.Place }

// connection gives one that is open.
func (c *Client) connection(ctx context.Context) (*rpc.Client, error) {
	c.dialing.Lock()
	defer c.dialing.Unlock()
	c.mu.Lock()
	have, failed, why := c.rpc, c.failed, c.why
	c.mu.Unlock()
	if have != nil {
		return have, nil
	}
	if why != nil && time.Since(failed) < redial {
		return nil, why
	}
	conn, err := c.Dial(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why = err; err != nil {
		c.failed = time.Now()
		return nil, err
	}
	c.rpc = rpc.NewClientWithCodec(jsonrpc.NewClientCodec(conn))
	return c.rpc, nil
}

// call makes one call. What is not answered in time is Away, and so is all after it until the
// connection stands again.
func (c *Client) call(ctx context.Context, method string, in, out any, fault *Fault) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	conn, err := c.connection(ctx)
	if err != nil {
		return &Away{err.Error()}
	}
	call := conn.Go(Service+"."+method, in, out, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		err = call.Error
	case <-ctx.Done():
		return &Away{ctx.Err().Error()} // out may be written to yet: it is not read
	}
	if err != nil {
		c.mu.Lock()
		if c.rpc == conn {
			_ = conn.Close() // it failed
			c.rpc = nil
		}
		c.mu.Unlock()
		return &Away{err.Error()}
	}
	return fault.err()
}

// Join begins this server's lease. It is called once, before anything else.
func (c *Client) Join(ctx context.Context) error {
	_, err := c.beat(ctx, true)
	return err
}

// beat renews the lease and reads what is new of the register.
func (c *Client) beat(ctx context.Context, join bool) (lapsed bool, err error) {
	began := time.Now() // before the database's own clock is read: this lease ends first
	c.mu.Lock()
	revision := c.has.Revision
	c.mu.Unlock()
	var out Beaten
	in := Beat{Server: c.me, Join: join, Address: c.Address, Lease: c.Lease, Revision: revision}
	err = c.call(ctx, "Beat", in, &out, &out.Fault)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.touched = err; err != nil {
		return false, err
	}
	c.keep(out.Register)
	if c.stale = c.stale || out.Lapsed; c.stale {
		c.until = time.Time{} // the database's clock may have stepped: what this one says is too late
	} else {
		c.until = began.Add(out.Left)
	}
	return c.stale, nil
}

// keep keeps a register that is newer. The lock is held.
func (c *Client) keep(r Register) {
	if r.Table != nil && r.Revision > c.has.Revision {
		c.has = r
	}
}

// Watcher learns what beats bring.
type Watcher interface {
	// Changed is called where the register is another.
	Changed()
	// Lapsed is called where the lease had been over: what is not in rows any more is lost. The
	// lease counts again after it returned nil.
	Lapsed(ctx context.Context, rows []Row) error
	// TakenOver is called with rows of servers that are out of touch, which are this server's now; now and
	// then with none.
	TakenOver(ctx context.Context, rows []Row)
}

// Run keeps the lease until ctx ends. Its error says that another release has the tables now.
func (c *Client) Run(ctx context.Context, w Watcher) error {
	c.mu.Lock()
	c.beating = true
	seen := c.has.Revision
	c.mu.Unlock()
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	looked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		lapsed, err := c.beat(ctx, false)
		if _, newer := errors.AsType[*Newer](err); newer || errors.Is(err, ErrLost) {
			return err
		}
		if err == nil && lapsed {
			err = c.rejoin(ctx, w)
		}
		if err != nil {
			continue
		}
		c.mu.Lock()
		changed := c.has.Revision != seen
		seen = c.has.Revision
		c.mu.Unlock()
		if changed {
			w.Changed()
		}
		if time.Since(looked) > min(c.Lease/4, lookEvery) {
			looked = time.Now()
			if rows, err := c.TakeOver(ctx); err == nil {
				w.TakenOver(ctx, rows)
			}
		}
	}
}

// rejoin lets go of what became another server's, and then goes on.
func (c *Client) rejoin(ctx context.Context, w Watcher) error {
	rows, err := c.Mine(ctx)
	if err != nil {
		return err
	}
	if err := w.Lapsed(ctx, rows); err != nil {
		return err
	}
	c.mu.Lock()
	c.stale = false
	c.mu.Unlock()
	_, err = c.beat(ctx, false)
	return err
}

// Holds says that this server's lease holds: else another may have what it had.
func (c *Client) Holds() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return nil
	}
	if c.touched != nil {
		return c.touched
	}
	return &Away{"this server was out of touch with it for longer than its lease"}
}

// Now gives the register, for a tenants.Register.
func (c *Client) Now(latest bool) (tenants.Table, int64, error) {
	c.mu.Lock()
	has, beating := c.has, c.beating
	c.mu.Unlock()
	if !latest && beating {
		return *has.Table, has.Revision, c.Holds()
	}
	var out Registered
	//nolint:forbidigo // a register is asked without a context, as a file is; the call has a bound
	if err := c.call(context.Background(), "Register", Ask{Revision: has.Revision}, &out, &out.Fault); err != nil {
		return tenants.Table{}, 0, err
	}
	if out.Table == nil { // it is the one that this client has
		return *has.Table, has.Revision, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(out.Register)
	return *out.Table, out.Revision, nil
}

// Replace replaces the register, for a tenants.Register.
func (c *Client) Replace(t tenants.Table, revision int64) error {
	var out Done
	//nolint:forbidigo // as for Now
	return c.call(context.Background(), "Replace", Change{revision, t}, &out, &out.Fault)
}

// Enter writes down a sandbox that is about to be made, if its tenant may have one more of all
// servers together. A tenant that was removed is tenants.ErrMissing.
func (c *Client) Enter(ctx context.Context, t tenants.Tenant, id string, record any) error {
	return missing(c.write(ctx, "Enter", t.Name, id, record, t.Created))
}

// Note writes down what a sandbox of this server's is by now.
func (c *Client) Note(ctx context.Context, tenant, id string, record any) error {
	return c.write(ctx, "Note", tenant, id, record, time.Time{})
}

func (c *Client) write(ctx context.Context, method, tenant, id string, record any, created time.Time) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write down sandbox %s: %w", id, err)
	}
	var out Done
	in := Write{Server: c.me, Row: Row{ID: id, Tenant: tenant, Record: text}, Created: created}
	return c.call(ctx, method, in, &out, &out.Fault)
}

// Leave strikes sandboxes that are over, MaxStruck at most.
func (c *Client) Leave(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	var out Done
	return c.call(ctx, "Leave", Struck{c.me, ids}, &out, &out.Fault)
}

func (c *Client) rows(ctx context.Context, method string, in Ask) ([]Row, error) {
	var out Rows
	if err := c.call(ctx, method, in, &out, &out.Fault); err != nil {
		return nil, err
	}
	return out.Rows, nil
}

// TakeOver makes the rows of servers that are out of touch this server's, each of one server alone.
func (c *Client) TakeOver(ctx context.Context) ([]Row, error) {
	return c.rows(ctx, "TakeOver", Ask{Server: c.me, Lease: c.Lease})
}

// Mine gives the rows of this server's sandboxes.
func (c *Client) Mine(ctx context.Context) ([]Row, error) {
	return c.rows(ctx, "Mine", Ask{Server: c.me})
}

// List gives the rows of a tenant's sandboxes, of all servers.
func (c *Client) List(ctx context.Context, tenant string) ([]Row, error) {
	return c.rows(ctx, "List", Ask{Tenant: tenant})
}

// Find gives where a sandbox is; ErrNone for nowhere.
func (c *Client) Find(ctx context.Context, id string) (Where, error) {
	var out Where
	if err := c.call(ctx, "Find", Ask{ID: id}, &out, &out.Fault); err != nil {
		return Where{}, err
	}
	return out, nil
}
