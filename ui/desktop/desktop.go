// Package desktop tells a person's desktop that questions wait.
//
// The promise: one notification at a time, by org.freedesktop.Notifications on the
// session bus, with words of Cloister's own and none of an agent's: a name in
// it is shown where it is plain letters, and left out otherwise. It never keeps
// anyone waiting, and a desktop that is not there is no error.
//
// It takes no answer: a question is answered where all of it can be seen. A
// desktop is no one who watches, since no one knows whether a person sits there.
//
// Most readers want [New].
package desktop

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	service = "org.freedesktop.Notifications"
	object  = "/org/freedesktop/Notifications"
	// callWithin bounds one call: the next news are newer.
	callWithin = 2 * time.Second
)

// Bell is the desktop's.
type Bell struct {
	address string
	log     *slog.Logger

	mu    sync.Mutex
	news  *news // what is to be shown next; nil for nothing new
	wake  chan struct{}
	conn  *dbus.Conn
	shown uint32 // the notification that is there; 0 for none
}

// news are what the desktop should show.
type news struct {
	waiting int
	about   string
}

// New is the bell of the desktop at a session bus. Run serves it.
func New(address string, log *slog.Logger) *Bell {
	return &Bell{address: address, log: log, wake: make(chan struct{}, 1)}
}

// Ring says how many questions wait now, and which session asked last. It returns
// at once.
func (b *Bell) Ring(waiting int, session string) {
	b.mu.Lock()
	b.news = &news{waiting, session}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run tells what is rung until ctx ends, and takes the notification away.
func (b *Bell) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			b.close(context.WithoutCancel(ctx))
			return
		case <-b.wake:
		}
		b.mu.Lock()
		n := b.news
		b.news = nil
		b.mu.Unlock()
		if n == nil {
			continue
		}
		// To its end, which is near: what is shown has to be known to be taken away.
		if err := b.tell(context.WithoutCancel(ctx), *n); err != nil {
			b.log.Debug("the desktop was not told", "error", err)
			b.drop()
		}
	}
}

func (b *Bell) close(ctx context.Context) {
	if b.conn != nil && b.shown != 0 {
		if err := b.tell(ctx, news{}); err != nil {
			b.log.Debug("the desktop was not told", "error", err)
		}
	}
	b.drop()
}

func (b *Bell) drop() {
	if b.conn != nil {
		_ = b.conn.Close() // a new one is made for the next news
	}
	b.conn, b.shown = nil, 0
}

func (b *Bell) tell(ctx context.Context, n news) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if n.waiting == 0 {
		if b.shown == 0 {
			return nil
		}
		err := b.call(ctx, "CloseNotification", b.shown).Err
		b.shown = 0
		return err
	}
	if b.conn == nil {
		if err := b.connect(ctx); err != nil {
			return err
		}
	}
	summary, body := Words(n.waiting, n.about)
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(byte(1)), "category": dbus.MakeVariant("im.received"),
		"transient": dbus.MakeVariant(true)}
	return b.call(ctx, "Notify", "cloister", b.shown, "", summary, body, []string{}, hints, int32(-1)).Store(&b.shown)
}

func (b *Bell) call(ctx context.Context, method string, args ...any) *dbus.Call {
	return b.conn.Object(service, object).CallWithContext(ctx, service+"."+method, 0, args...)
}

// connect takes only as long as a call may, also where no one answers.
func (b *Bell) connect(ctx context.Context) error {
	type made struct {
		conn *dbus.Conn
		err  error
	}
	done := make(chan made, 1)
	go func() {
		conn, err := dbus.Connect(b.address)
		done <- made{conn, err}
	}()
	select {
	case m := <-done:
		b.conn = m.conn
		return m.err
	case <-ctx.Done():
		go func() {
			if m := <-done; m.err == nil {
				_ = m.conn.Close() // it came too late
			}
		}()
		return ctx.Err()
	}
}

// Words are what the desktop shows: plain, since a desktop may read markup.
func Words(waiting int, session string) (summary, body string) {
	summary = "cloister: a question waits"
	if waiting > 1 {
		summary = fmt.Sprintf("cloister: %d questions wait", waiting)
	}
	body = "Look and answer: cloister approvals watch"
	plain := strings.Trim(session, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
	if session != "" && plain && len(session) <= 64 {
		body = session + " asks. " + body
	}
	return summary, body
}
