package client

import (
	"context"
	"errors"
	"time"

	"cloister/api"
	"cloister/internal/passfd"
)

// finished reports whether the link is over after a broken connection, and marks
// the guardian as gone otherwise.
func (l *Link) finished(ctx context.Context, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	close(l.gone)
	if ctx.Err() != nil || isClosed(l.ended) {
		return true
	}
	// Refused before the listeners were served: nothing lives yet that would
	// be worth re-offering.
	var refused *api.Error
	if errors.As(err, &refused) && !isClosed(l.armed) {
		l.refused = refused
		return true
	}
	return false
}

// rejoin offers the session until a guardian takes it; nil when ctx ended.
func (l *Link) rejoin(ctx context.Context) *passfd.Conn {
	for ctx.Err() == nil {
		conn, err := l.offer(ctx)
		if err == nil {
			return conn
		}
		l.mu.Lock()
		waiting := l.listeners
		l.mu.Unlock()
		waiting.refuse(ctx, retryAfter(err))
	}
	return nil
}

func retryAfter(err error) time.Duration {
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code != api.CodeNameTaken && refused.Code != api.CodeShuttingDown {
		return retryRefused
	}
	return retryEvery
}

// offer re-opens the session with one guardian and hands the listeners over.
func (l *Link) offer(ctx context.Context) (*passfd.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	asked, err := l.client.Ask(ctx, l.again())
	if err != nil {
		return nil, err
	}
	conn, grant, err := asked.answer()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn, l.grant, l.gone = conn, grant, make(chan struct{})
	arm, end := l.arm, l.end
	_, files := l.listeners.list()
	l.mu.Unlock()
	if arm != nil {
		l.send(conn, api.Frame{Type: api.FrameArm, Arm: arm}, files)
	}
	l.tellAgain(conn)
	if end != nil {
		l.send(conn, api.Frame{Type: api.FrameEnd, End: end}, nil)
	}
	return conn, nil
}

// again is the request with what happened since it was first made.
func (l *Link) again() api.SessionRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	req := l.req
	req.Name = l.grant.Name
	req.Resume = &api.Resume{
		ID:        l.grant.ID,
		Name:      l.grant.Name,
		CreatedAt: l.grant.CreatedAt,
		Exec:      l.exec,
		Summary:   l.summary,
		Secrets:   l.grant.Secrets,
		Sealed:    l.grant.Sealed,
	}
	if l.started != nil {
		req.Resume.Handle, req.Resume.CommandPID = l.started.Handle, l.started.PID
	}
	return req
}
