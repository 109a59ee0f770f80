package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"cloister/config"
)

// maxUnderway bounds the logins that wait for a person.
const maxUnderway = 16

// ErrUnknown says that no such login is under way.
var ErrUnknown = errors.New("no such login is under way")

// A Desk holds the logins that wait for a person. The zero Desk is ready.
type Desk struct {
	mu  sync.Mutex
	all map[string]*underway
}

// underway is one of them.
type underway struct {
	flow  *Flow
	codes chan string // what the browser brought, or the person pasted
	close func()      // of what waits for the browser
}

// Begin begins a login, and listens where its browser ends.
func (d *Desk) Begin(ctx context.Context, c *Client, l *config.LoginService) (id string, f *Flow, err error) {
	u := &underway{codes: make(chan string, 1), close: func() {}}
	redirect := ""
	var ln net.Listener
	if l.Flow == config.FlowBrowser {
		if redirect, ln, err = listen(ctx, l); err != nil {
			return "", nil, err
		}
	}
	if u.flow, err = c.Begin(ctx, l, redirect); err == nil {
		id, err = d.keep(u)
	}
	switch {
	case err != nil && ln != nil:
		_ = ln.Close()
	case err == nil && ln != nil:
		u.serve(ln)
	}
	return id, u.flow, err
}

// keep enters one; those that are too late go.
func (d *Desk) keep(u *underway) (id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for old, o := range d.all {
		if time.Now().After(o.flow.Expires) {
			o.close()
			delete(d.all, old)
		}
	}
	if len(d.all) >= maxUnderway {
		return "", fmt.Errorf("%d logins are under way already", maxUnderway)
	}
	if d.all == nil {
		d.all = map[string]*underway{}
	}
	id = rand.Text()
	d.all[id] = u
	return id, nil
}

func (d *Desk) find(id string, l *config.LoginService) (*underway, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u := d.all[id]; u != nil && u.flow.l.Name == l.Name {
		return u, nil
	}
	return nil, ErrUnknown
}

// Answer gives the address that a browser ended at to whoever waits.
func (d *Desk) Answer(id string, l *config.LoginService, text string) error {
	u, err := d.find(id, l)
	if err != nil {
		return err
	}
	if _, err := u.flow.Answer(text); refusedForm(err) {
		return err
	}
	select {
	case u.codes <- text:
	default: // it was answered already
	}
	return nil
}

// refusedForm says that a text is no answer to this login at all, not even a no.
func refusedForm(err error) bool {
	_, said := errors.AsType[*AnswerError](err)
	return err != nil && !said
}

// Finish waits until the person has agreed; the login is over then.
func (d *Desk) Finish(ctx context.Context, id string, l *config.LoginService) (Tokens, error) {
	u, err := d.find(id, l)
	if err != nil {
		return Tokens{}, err
	}
	defer d.end(id)
	if l.Flow == config.FlowDevice {
		return u.flow.Poll(ctx)
	}
	late := time.NewTimer(time.Until(u.flow.Expires))
	defer late.Stop()
	select {
	case text := <-u.codes:
		code, err := u.flow.Answer(text)
		if err != nil {
			return Tokens{}, err
		}
		return u.flow.Exchange(ctx, code)
	case <-late.C:
		return Tokens{}, errors.New("nobody answered in time")
	case <-ctx.Done():
		return Tokens{}, ctx.Err()
	}
}

func (d *Desk) end(id string) {
	d.mu.Lock()
	u := d.all[id]
	delete(d.all, id)
	d.mu.Unlock()
	if u != nil {
		u.close()
	}
}

// Close ends all that waits for a browser.
func (d *Desk) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, u := range d.all {
		u.close()
		delete(d.all, id)
	}
}

// listen is where the browser ends. A port that someone has already is no
// failure: the person can paste the address.
func listen(ctx context.Context, l *config.LoginService) (redirect string, ln net.Listener, err error) {
	to, err := url.Parse(l.Redirect)
	if err != nil {
		return "", nil, fmt.Errorf("%s: its redirect: %w", l.Title, err)
	}
	var lc net.ListenConfig
	if ln, err = lc.Listen(ctx, "tcp", "127.0.0.1:"+to.Port()); err != nil {
		return l.Redirect, nil, nil // the address can be pasted
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		_ = ln.Close()
		return "", nil, fmt.Errorf("%s: its redirect: %w", l.Title, err)
	}
	to.Host = "localhost:" + port
	return to.String(), ln, nil
}

// serve waits for the browser until close.
func (u *underway) serve(ln net.Listener) {
	path := "/"
	if to, err := url.Parse(u.flow.redirect); err == nil {
		path = to.Path
	}
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, Handler: u.page(path)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(ln) // it ends with close
	}()
	u.close = sync.OnceFunc(func() {
		_ = srv.Close()
		<-served
	})
}

// page takes the browser's answer, once, and only the one to this login. Any page
// of any site can send a browser here: the state is what it cannot know.
func (u *underway) page(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if r.Method != http.MethodGet || r.URL.Path != path || err != nil || host != "localhost" && host != "127.0.0.1" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer")
		text := "http://" + r.Host + r.URL.RequestURI()
		if _, err := u.flow.Answer(text); refusedForm(err) {
			http.Error(w, "This is not the answer to a login that is under way: "+err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case u.codes <- text:
			_, _ = fmt.Fprintln(w, "Done. You can close this window and go back to the terminal.")
		default:
			http.Error(w, "This login was answered already.", http.StatusConflict)
		}
	})
}
