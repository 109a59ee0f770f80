package http1

import (
	"crypto/sha1" // RFC 6455 names it, and no secret hangs on it
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/frames"
	"cloister/egress/internal/request"
	"cloister/egress/internal/stream"
	"cloister/egress/internal/tunnel"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// A webSocket is an exchange that becomes one.
type webSocket struct{ x *exchange }

// check lets a whole WebSocket handshake through (RFC 6455 4.2.1), and no
// other upgrade: what follows one could not be read.
func (w webSocket) check() error {
	h := w.x.req.Header
	refused := &verdict.Form{Status: 400, Reason: "an upgrade to another protocol",
		Detail: dial.Quote(strings.Join(h.Tokens("Upgrade"), ","))}
	if !slices.Equal(h.Tokens("Upgrade"), []string{"websocket"}) {
		return refused
	}
	key, keys := h.Get("Sec-WebSocket-Key")
	raw, err := base64.StdEncoding.DecodeString(key)
	version, versions := h.Get("Sec-WebSocket-Version")
	if keys != 1 || err != nil || len(raw) != 16 || versions != 1 || version != "13" || w.x.req.Method != http.MethodGet ||
		w.x.req.Minor != 1 || w.x.req.Body != wire.NoBody || !slices.Contains(h.Tokens("Connection"), "upgrade") {
		refused.Reason = "an upgrade to WebSocket that is no whole handshake"
		return refused
	}
	w.x.upgrade = key
	return nil
}

// answered checks the server's half of the handshake.
func (w webSocket) answered(r *wire.Response) error {
	const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	sum := sha1.Sum([]byte(w.x.upgrade + guid))
	accept, n := r.Header.Get("Sec-WebSocket-Accept")
	if n != 1 || accept != base64.StdEncoding.EncodeToString(sum[:]) ||
		!slices.Equal(r.Header.Tokens("Upgrade"), []string{"websocket"}) ||
		!slices.Contains(r.Header.Tokens("Connection"), "upgrade") {
		return fmt.Errorf("%w: 101 that does not answer the WebSocket handshake", request.ErrServer)
	}
	return nil
}

// serve passes the server's half of the handshake on, and then frames.
func (w webSocket) serve() error {
	r := w.x.resp
	w.x.Status = r.Status
	_, extended := r.Header.Get("Sec-WebSocket-Extensions")
	if w.x.extended = extended > 0; w.x.extended && verdict.ReadsFrames(w.x.Verdict.Edits) {
		return fmt.Errorf("%w: 101 with an extension that was not asked for", request.ErrServer)
	}
	own := wire.Header{{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "websocket"}}
	w.x.reply.putHead(r, own)
	if err := w.x.reply.flush(); err != nil {
		return err
	}
	w.x.Answered, w.x.framed = true, true
	if err := w.x.stop(errUpgraded); !errors.Is(err, errUpgraded) {
		return err
	}
	return w.pass()
}

// errUpgraded ends the HTTP of a connection: what follows are WebSocket frames.
var errUpgraded = errors.New("the connection carries frames from here on")

// read gives what passes to the edits that want it.
func (w webSocket) read(t *tunnel.Tunnel, up, down *wire.FrameScan) {
	for _, e := range w.x.Verdict.Edits {
		if e.Frames == nil {
			continue
		}
		f := e.Frames()
		var said []byte // of a ping and its like
		t.Up.Check = func(b []byte) error {
			return up.Walk(b, nil, func(p []byte, end bool) error {
				if !up.Control() {
					return f.Up(p, end)
				}
				if said = append(said, p...); !end {
					return nil
				}
				defer func() { said = said[:0] }()
				return f.Control(said)
			})
		}
		t.Down.Check = nil
		t.Down.Edit = editFrames(f, down)
		return // one reads them: no two would agree on what passes
	}
}

// editFrames gives what comes down to f, and puts what f makes of it back into the
// frames that it came in. What f holds back of a fragment goes on before anything that
// came behind it.
func editFrames(f verdict.Frames, down *wire.FrameScan) func(out, b []byte) ([]byte, error) {
	var later frames.Order
	var control, made []byte
	return func(out, b []byte) ([]byte, error) {
		err := down.Walk(b, func(h []byte) { out = later.Behind(out, h) }, func(p []byte, end bool) error {
			if !down.Control() {
				made = f.Down(made[:0], p, end && down.Final())
				out = later.Data(out, made, len(p))
				return nil
			}
			if control = append(control, p...); end {
				out = later.Behind(out, f.DownControl(control))
				control = control[:0]
			}
			return nil
		})
		if err == nil && later.Full() {
			err = errPieces
		}
		return out, err
	}
}

// errPieces ends a WebSocket whose server spreads a value over too many fragments.
var errPieces = &verdict.Refused{Verdict: verdict.Answer{Effect: "deny",
	Reason: "a message of a WebSocket in too many pieces to be searched for secrets"}}

// pass passes WebSocket frames in both directions until both have ended.
func (w webSocket) pass() error {
	s := w.x.Stream
	t := tunnel.New(s.Client.Source, s.Server.Source, &s.Session.Buffers, s.Session.Limits.HalfClosed)
	up, down := &wire.FrameScan{Masked: true, Extended: w.x.extended}, &wire.FrameScan{Extended: w.x.extended}
	t.Up.Check, t.Down.Check = up.Scan, down.Scan
	w.read(t, up, down)
	// What a rule lets a body hold, all frames may. The session's own bound on one
	// request would end a long conversation; upload_limit counts that.
	if scan := t.Up.Check; w.x.Verdict.MaxBytes > 0 {
		t.Up.Check = func(b []byte) error {
			if n := t.Up.N.Load() + int64(len(b)); n > w.x.Verdict.MaxBytes {
				return stream.Ruled(w.x.Verdict, n)
			}
			return scan(b)
		}
	}
	t.Up.Meter(s.Session.Quota, w.x.Use)
	t.StartDown()
	err := t.Finish()
	w.x.Up, w.x.Down = t.Up.N.Load(), t.Down.N.Load()
	form, bounded := errors.AsType[*verdict.Form](err)
	switch cause := s.Conns.Killed(); {
	case cause != nil:
		return &request.Broken{Reason: cause.Error(), Silent: true}
	case err == nil:
		return nil
	case bounded:
		return form
	case !errors.Is(err, tunnel.ErrCheck):
		return &request.Broken{Reason: "connection broken", Silent: true}
	}
	if r, ok := errors.AsType[*verdict.Refused](err); ok {
		return &request.Broken{Reason: r.Verdict.Reason, Breach: true}
	}
	return &request.Broken{Reason: "a WebSocket connection with bytes that are no frame", Breach: true}
}
