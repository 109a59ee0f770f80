package beside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"cloister/internal/twoway"
	"cloister/sandbox"
)

// mostConnections bounds what one cloister holds open to those beside it; a further
// connection waits.
const mostConnections = 256

// boxes are those that run, by their numbers.
type boxes struct {
	mu sync.Mutex
	by map[uint8]sandbox.PeerDialer
}

func (b *boxes) set(number uint8, d sandbox.PeerDialer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by[number] = d
}

func (b *boxes) get(number uint8) sandbox.PeerDialer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[number]
}

// relays are those of a plan, which end together.
type relays struct {
	ctx   context.Context
	boxes boxes
	work  sync.WaitGroup

	mu    sync.Mutex
	conns map[io.Closer]bool
	over  bool
}

func newRelays(ctx context.Context) *relays {
	return &relays{ctx: ctx, boxes: boxes{by: map[uint8]sandbox.PeerDialer{}}, conns: map[io.Closer]bool{}}
}

// serve takes the sockets of one cloister's peers: the first is for all addresses, the others
// for its local ports.
func (r *relays) serve(m *member, sockets []*os.File) {
	slots := make(chan struct{}, mostConnections)
	for i, f := range sockets {
		l, err := net.FileListener(f)
		_ = f.Close() // the listener has a descriptor of its own
		if err != nil || !r.hold(l) {
			continue // who connects is not answered
		}
		from := origin{m: m}
		if i > 0 {
			from.port = m.peers.Local[i-1]
		}
		r.work.Go(func() { r.accept(l, slots, from) })
	}
}

// dial is where a connection goes on.
type dial struct {
	number uint8
	port   uint16
	local  bool // to the other's loopback as well
}

// origin is a socket of one cloister: for all addresses, or for a port of its loopback.
type origin struct {
	m    *member
	port uint16
}

// wanted is where a program wanted to go, if it may.
func (o origin) wanted(c net.Conn) (dial, error) {
	if o.port > 0 {
		return dial{o.m.local[o.port].number, o.port, true}, nil
	}
	number, port, err := peerOf(c)
	if err != nil {
		return dial{}, err
	}
	if !slices.Contains(o.m.peers.Others, number) {
		return dial{}, fmt.Errorf("cloister %d is none of its peers", number)
	}
	return dial{number, port, false}, nil
}

func (r *relays) accept(l net.Listener, slots chan struct{}, from origin) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, or a caller that left: the next may do better.
			select {
			case <-r.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-r.ctx.Done():
			_ = c.Close()
			return
		}
		r.work.Go(func() {
			defer func() { <-slots }()
			r.pass(c, from)
		})
	}
}

// pass connects one caller to the port of another cloister, each direction to its own end.
func (r *relays) pass(caller net.Conn, from origin) {
	if !r.hold(caller) {
		return
	}
	defer r.drop(caller)
	served, err := r.reach(caller, from)
	if err != nil {
		twoway.Refuse(caller)
		return
	}
	if !r.hold(served) {
		return
	}
	defer r.drop(served)
	twoway.Join(caller, served)
}

func (r *relays) reach(caller net.Conn, from origin) (net.Conn, error) {
	d, err := from.wanted(caller)
	if err != nil {
		return nil, err
	}
	box := r.boxes.get(d.number)
	if box == nil {
		return nil, errors.New("it does not run")
	}
	if d.local {
		return box.Dial(r.ctx, d.port)
	}
	return box.DialPeer(r.ctx, d.port)
}

// hold enters what close will end; what comes too late is closed.
func (r *relays) hold(c io.Closer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		_ = c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

func (r *relays) drop(c io.Closer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	_ = c.Close()
}

// close ends every connection and waits for those that serve them.
func (r *relays) close() {
	r.mu.Lock()
	r.over = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}
