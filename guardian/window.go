package guardian

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"cloister/api"
	"cloister/ui/web"
)

// window is the door for browsers, and who serves it.
type window struct {
	mu     sync.Mutex
	door   *web.Door // nil until a person asked for it
	server *http.Server
	served sync.WaitGroup
}

// openWindow begins to listen for browsers, unless it does already.
func (g *guardian) openWindow() (*web.Door, error) {
	w := &g.window
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.door != nil {
		return w.door, nil
	}
	if g.ctx.Err() != nil {
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeShuttingDown,
			Message: "open the window: the guardian is on its way out"}
	}
	door, err := web.Open(g.ctx, g.o.Dirs.Runtime)
	if err != nil {
		return nil, err
	}
	w.door = door
	w.server = &http.Server{
		Handler:           door.Handler(g.handler()),
		BaseContext:       func(net.Listener) context.Context { return g.ctx },
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 20, // every port of this address may add cookies
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	w.served.Go(func() {
		if err := w.server.Serve(door.Listener()); !errors.Is(err, http.ErrServerClosed) {
			g.notice("the window is closed: " + err.Error())
		}
	})
	g.log.Info("the window is open", "at", door.URL())
	return door, nil
}

// reopenWindow lets pages find this guardian that were open with the last one.
func (g *guardian) reopenWindow() {
	if _, err := g.openWindow(); err != nil && g.ctx.Err() == nil {
		g.notice(err.Error())
	}
}

// closeWindow ends it, with every stream and terminal.
func (g *guardian) closeWindow() {
	w := &g.window
	w.mu.Lock()
	server := w.server
	w.mu.Unlock()
	if server != nil {
		_ = server.Close() // pages come back to the next guardian
		w.served.Wait()
	}
}

// windowURL is where the window is, "" while it is not.
func (g *guardian) windowURL() string {
	g.window.mu.Lock()
	defer g.window.mu.Unlock()
	if g.window.door == nil {
		return ""
	}
	return g.window.door.URL()
}

// postWindow makes a link for one browser.
func (g *guardian) postWindow(http.ResponseWriter, *http.Request) (any, error) {
	door, err := g.openWindow()
	if err != nil {
		return nil, err
	}
	url, ends := door.Link()
	return api.Link{URL: url, ExpiresAt: ends}, nil
}
