package connect

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Flags of an envelope.
const (
	flagPacked = 1
	flagLast   = 2
)

// Input gives a stream's messages one after the other. Next returns io.EOF at their end.
type Input struct {
	r      io.Reader
	packed bool
	rc     *http.ResponseController
	begun  bool
}

// Next reads one message. The first has to come within a minute, since the call waits for it.
func (i *Input) Next(into any) error {
	if !i.begun {
		i.begun = true
		_ = i.rc.SetReadDeadline(time.Now().Add(stall)) // not every writer has one
		defer func() { _ = i.rc.SetReadDeadline(time.Time{}) }()
	}
	var head [5]byte
	if _, err := io.ReadFull(i.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return Errorf(InvalidArgument, "read a message: %v", err)
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > MaxMessage {
		return Errorf(ResourceExhausted, "a message has more than %d bytes", MaxMessage)
	}
	body := make([]byte, 0, min(size, 64<<10))
	buf := bytes.NewBuffer(body)
	if _, err := io.CopyN(buf, i.r, int64(size)); err != nil {
		return Errorf(InvalidArgument, "read a message: %v", err)
	}
	body = buf.Bytes()
	if head[0]&^flagPacked != 0 {
		return Errorf(InvalidArgument, "a message has flags %#x", head[0])
	}
	if head[0]&flagPacked != 0 {
		if !i.packed {
			return Errorf(Internal, "a message is compressed, and the stream names no compression")
		}
		var err error
		if body, err = unpack(body); err != nil {
			return err
		}
	}
	return parse(body, into)
}

// Output sends a stream's messages; it may be used by several goroutines.
type Output struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	rc   *http.ResponseController
	over bool
}

// ErrOver is the error of a message after the last.
var ErrOver = errors.New("the stream is over")

// Send sends one message at once.
func (o *Output) Send(v any) error { return o.envelope(0, v) }

// stall bounds how long a client may leave a message unread.
const stall = 60 * time.Second

func (o *Output) envelope(flags byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var head [5]byte
	head[0] = flags
	binary.BigEndian.PutUint32(head[1:], uint32(len(text)))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return ErrOver
	}
	o.over = flags&flagLast != 0
	if err := o.rc.SetWriteDeadline(time.Now().Add(stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := o.w.Write(append(head[:], text...)); err != nil {
		return err
	}
	return o.rc.Flush()
}

// Stream answers with a stream of messages. With several requests f reads them from in.
func Stream(f func(ctx context.Context, r *http.Request, in *Input, out *Output) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(w, r, "application/connect+json") {
			return
		}
		ctx, cancel, err := deadline(r)
		out := &Output{w: w, rc: http.NewResponseController(w)}
		// HTTP/1.1 reads a body only before the answer else; HTTP/2 knows no such bound.
		_ = out.rc.EnableFullDuplex()
		w.Header().Set("Content-Type", "application/connect+json")
		w.Header().Set("X-Accel-Buffering", "no")
		if err == nil {
			defer cancel()
			in := &Input{r: r.Body, rc: out.rc}
			switch coding := r.Header.Get("Connect-Content-Encoding"); coding {
			case "", "identity":
			case "gzip":
				in.packed = true
			default:
				err = Errorf(Unimplemented, "unknown compression %q: supported encodings are gzip", coding)
			}
			if err == nil {
				err = f(ctx, r, in, out)
			}
		} else {
			ctx = r.Context()
		}
		if errors.Is(err, ErrAbort) {
			panic(http.ErrAbortHandler)
		}
		last := struct {
			Error *Error `json:"error,omitempty"`
		}{}
		if err != nil {
			last.Error = asError(ctx, err)
		}
		_ = out.envelope(flagLast, last) // the client has gone
	})
}
