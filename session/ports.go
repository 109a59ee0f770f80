package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"cloister/api"
	"cloister/sandbox"
)

// maxLater bounds the ports that are published while a cloister runs.
const maxLater = 32

// Ports are ports that are published while a cloister runs.
type Ports struct {
	inside sandbox.Dialer
	p      *publication
}

// NewPorts publishes nothing yet. It is closed before the box is.
func NewPorts(box sandbox.Box) (*Ports, error) {
	inside, ok := box.(sandbox.Dialer)
	if !ok {
		return nil, errors.New("publish: this isolation cannot publish ports")
	}
	return &Ports{inside, &publication{slots: make(chan struct{}, maxCallers), conns: map[net.Conn]bool{}}}, nil
}

// List are the published ports.
func (o *Ports) List() []api.Published {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	return slices.Clone(o.p.ports)
}

// Publish makes a port inside reachable at one of the host's 127.0.0.1 until Close; host
// port 0 is any free one. ctx bounds the connections too.
func (o *Ports) Publish(ctx context.Context, want api.Published) (api.Published, error) {
	if want.HostPort != 0 && api.WindowPort(want.HostPort) {
		return want, fmt.Errorf("publish 127.0.0.1:%d: %d to %d are the window's",
			want.HostPort, api.WindowFirst, api.WindowLast)
	}
	var config net.ListenConfig
	listen := func() (net.Listener, error) {
		return config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", want.HostPort))
	}
	l, err := listen()
	for range 16 {
		if err != nil || !api.WindowPort(uint16(l.Addr().(*net.TCPAddr).Port)) {
			break
		}
		_ = l.Close() // the kernel gave one of the window's
		l, err = listen()
	}
	if err != nil {
		return want, &unpublished{want, err}
	}
	want.HostPort = uint16(l.Addr().(*net.TCPAddr).Port)
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	if o.p.over || len(o.p.ports) >= maxLater {
		_ = l.Close()
		return want, fmt.Errorf("publish port %d: %d ports are published already, or the cloister has ended",
			want.Port, len(o.p.ports))
	}
	o.p.listeners, o.p.ports = append(o.p.listeners, l), append(o.p.ports, want)
	o.p.work.Go(func() { o.p.accept(ctx, l, o.inside, want.Port) })
	return want, nil
}

// Close ends every connection, and waits for those that serve them.
func (o *Ports) Close() {
	if o != nil {
		o.p.close()
	}
}
