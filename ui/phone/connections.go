package phone

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections bounds what a tunnel may have open at once.
const maxConnections = 64

// connections are those that are open, the oldest first. One too many ends the oldest: each
// request is signed by itself and takes milliseconds, so that a stranger who holds all of
// them open keeps no device out.
type connections struct {
	mu   sync.Mutex
	open []net.Conn
}

// changed is the server's word on a connection ([http.Server.ConnState]).
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.open = append(c.open, conn); len(c.open) > maxConnections {
			_ = c.open[0].Close() // its reader ends
			c.open = slices.Delete(c.open, 0, 1)
		}
	case http.StateClosed, http.StateHijacked:
		c.open = slices.DeleteFunc(c.open, func(x net.Conn) bool { return x == conn })
	case http.StateActive, http.StateIdle:
	}
}
