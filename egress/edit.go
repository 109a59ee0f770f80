package egress

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"cloister/egress/internal/body"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
	"cloister/internal/fieldname"
)

// An Edit changes one allowed request on its way up, and the answer to it on its
// way down, in HTTP/1.1 and HTTP/2 alike. A nil field changes nothing. Its
// functions are called once each, in the order in which they stand here, and
// not at the same time; the bodies that they leave are read meanwhile.
type Edit struct {
	// Request is given the request before a byte of it goes up. Until it returns
	// nothing does, so that it may read the whole body first (bounded by itself).
	Request func(*Message) error
	// Response is given the final answer before a byte of it goes down, a 101
	// too.
	Response func(*Message) error
	// Trailer is given the fields behind the answer's body.
	Trailer func(*Header)
	// Frames is asked where the exchange becomes a WebSocket. No extension is agreed
	// on then, so that what passes can be read.
	Frames func() Frames
}

// Frames looks at the data of a WebSocket's messages, and of pings and their like. Its
// functions for what goes up and what comes down may be called at the same time.
type Frames struct {
	// Up is given what the program sends, with the end of each frame; an error breaks
	// the connection off. Control is given the whole data of a ping, a pong or an end.
	Up      func(p []byte, end bool) error
	Control func(p []byte) error
	// Down appends to out what the program gets of p, from the server: by the end of
	// each message as much as came.
	Down func(out, p []byte, end bool) []byte
	// DownControl is what the program gets of the whole data of a ping, a pong or an
	// end, as long as that.
	DownControl func(p []byte) []byte
}

// A Message is a request or an answer under an Edit.
type Message struct {
	Authority authority.Authority
	Secure    bool   // TLS is opened on both sides
	Method    string // of the request
	Path      string // of the request, as it is sent on
	Query     string // of the request, without question mark; an Edit may change it
	Status    int    // of an answer
	Header    Header

	body     io.Reader
	length   int64
	replaced bool
}

// Body is what the other side sends, decoded from its framing but not from its
// Content-Encoding. It is empty, never nil, where there is none. Who reads of it
// gives back by SetBody what shall be sent.
func (m *Message) Body() io.Reader { return m.body }

// Host is the header Host as it is sent.
func (m *Message) Host() string {
	if m.Secure {
		return hostField(m.Authority, 443)
	}
	return hostField(m.Authority, 80)
}

// Length is how long Body is, or -1 where no one knows.
func (m *Message) Length() int64 { return m.length }

// SetBody sends r in the place of the body. What r gives is passed on at once, so
// a filter holds back no more than it must; an error of r that is not io.EOF
// breaks the message off. length is how much r gives, or -1.
func (m *Message) SetBody(r io.Reader, length int64) {
	m.body, m.length, m.replaced = r, length, true
}

// A Refused is an Edit's word that the request shall not be made, or that its
// answer shall not be passed on. Any other error is reported as a failure (502).
type Refused struct {
	Verdict Verdict // rule, place, reason and hints, told as those of a rule
	Status  int     // 403 unless said
	// Answer, where it is not empty, is what the program receives instead, of that
	// ContentType.
	Answer      []byte
	ContentType string
}

func (e *Refused) Error() string { return e.Verdict.Reason }

// refusedBy is err in the words that a program receives.
func refusedBy(err error) *Refused {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r
	}
	if form, ok := errors.AsType[*formError](err); ok {
		return &Refused{Status: form.status, Verdict: Verdict{Effect: "deny", Reason: form.reason}}
	}
	if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
		return &Refused{Status: syntax.Status, Verdict: Verdict{Effect: "deny", Reason: syntax.Error()}}
	}
	return &Refused{Status: http.StatusBadGateway, Verdict: Verdict{Effect: "deny", Reason: err.Error()}}
}

func (e *Refused) status() int {
	if e.Status == 0 {
		return http.StatusForbidden
	}
	return e.Status
}

// refusal is e for the program.
func (e *Refused) refusal(a authority.Authority) refusal {
	r := refusalOf(e.Verdict, a)
	r.Status, r.answer, r.kind = e.status(), e.Answer, e.ContentType
	return r
}

// Header are the fields of a message under an Edit. Those that say where a
// message ends or goes (Host, Content-Length, Transfer-Encoding, Connection and
// its like) are the gate's: to change one refuses the message.
type Header struct {
	fields wire.Header
	err    error
}

// All gives each field in order.
func (h *Header) All() iter.Seq2[string, string] { return h.fields.All }

// Values are those of one name, in order: in each spelling that servers take for
// it, here as below.
func (h *Header) Values(name string) []string {
	var out []string
	for _, f := range h.fields {
		if fieldname.Same(f.Name, name) {
			out = append(out, f.Value)
		}
	}
	return out
}

// Set makes value the only one of that name, in the place of the first.
func (h *Header) Set(name, value string) {
	if !h.may(name, value) {
		return
	}
	i := slices.IndexFunc(h.fields, func(f wire.Field) bool { return fieldname.Same(f.Name, name) })
	if i < 0 {
		h.fields = append(h.fields, wire.Field{Name: name, Value: value})
		return
	}
	h.fields[i] = wire.Field{Name: name, Value: value}
	rest := slices.DeleteFunc(h.fields[i+1:], func(f wire.Field) bool { return fieldname.Same(f.Name, name) })
	h.fields = h.fields[:i+1+len(rest)]
}

// Del removes every field of that name.
func (h *Header) Del(name string) {
	if h.may(name, "") {
		h.fields = slices.DeleteFunc(h.fields, func(f wire.Field) bool { return fieldname.Same(f.Name, name) })
	}
}

// Map gives each field that is not the gate's own the value that f makes of it.
func (h *Header) Map(f func(name, value string) string) {
	for i, field := range h.fields {
		if ownField(field.Name) {
			continue
		}
		if value := f(field.Name, field.Value); value != field.Value && h.may(field.Name, value) {
			h.fields[i].Value = value
		}
	}
}

func (h *Header) may(name, value string) bool {
	if h.err != nil {
		return false
	}
	switch _, err := wire.ParseField(name + ":" + value); {
	case err != nil:
		h.err = errors.New("a header that is changed here: " + err.Error())
	case ownField(name):
		h.err = errors.New("the header " + name + " is the gate's own and cannot be changed")
	}
	return h.err == nil
}

// ownField reports whether a field frames or routes a message, so that the gate
// alone writes it.
func ownField(name string) bool {
	switch strings.ToLower(name) {
	case "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "expect", "trailer", "keep-alive",
		"proxy-connection", "sec-websocket-key", "sec-websocket-accept", "sec-websocket-version", "sec-websocket-extensions":
		return true
	}
	return false
}

// editRequest runs the edits of a request, first to last.
func (m *Message) editRequest(edits []Edit) error {
	for _, e := range edits {
		if e.Request == nil {
			continue
		}
		if err := m.checked(e.Request(m)); err != nil {
			return err
		}
	}
	if m.Query != "" {
		if err := wire.CheckTarget(m.Query); err != nil {
			return refusedBy(err)
		}
	}
	return nil
}

// editResponse runs the edits of an answer, last to first, so that what went up
// last comes down first.
func (m *Message) editResponse(edits []Edit) error {
	for _, e := range slices.Backward(edits) {
		if e.Response == nil {
			continue
		}
		if err := m.checked(e.Response(m)); err != nil {
			return err
		}
	}
	return nil
}

func (m *Message) checked(err error) error {
	if err == nil {
		err = m.Header.err
	}
	if err != nil {
		return refusedBy(err)
	}
	return nil
}

// editTrailers runs the edits of trailers; what cannot be changed is left out.
func editTrailers(edits []Edit, fields wire.Header) wire.Header {
	h := &Header{fields: slices.Clone(fields)}
	for _, e := range slices.Backward(edits) {
		if e.Trailer != nil {
			e.Trailer(h)
		}
	}
	if h.err != nil {
		return nil
	}
	return h.fields
}

// trailers are those of an answer as they go down.
func (x *exchange) trailers(fields wire.Header) wire.Header {
	return x.s.e.clean(editTrailers(x.verdict.Edits, fields))
}

// clean leaves out the fields whose names hold what must not reach the program.
func (e *Engine) clean(fields wire.Header) wire.Header {
	if e.cfg.Redact == nil {
		return fields
	}
	by := e.cfg.Redact()
	if by == nil || !slices.ContainsFunc(fields, func(f wire.Field) bool { return by.InName(f.Name) }) {
		return fields
	}
	return fields.Without(by.InName)
}

func readsFrames(edits []Edit) bool {
	return slices.ContainsFunc(edits, func(e Edit) bool { return e.Frames != nil })
}

// waits reports whether the program sends its body only once it is told to.
func (x *exchange) waits() bool {
	return !x.continued && x.req.Minor == 1 && slices.Contains(x.req.Header.Tokens("Expect"), "100-continue")
}

// goOn tells a program that waits with its body that it is wanted.
func (x *exchange) goOn() error {
	x.continued = true
	_, err := x.s.client.Conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	return err
}

// An answer is one that goes down as an Edit gives it.
type answer struct {
	x      *exchange
	body   io.Reader
	length int64
	from   *body.In // the server's own
}

// editedAnswer takes what the edits made of the answer's head, and gives the body that
// goes down, nil for as it comes.
func (x *exchange) editedAnswer(m *Message) *answer {
	r := x.resp
	r.Header = m.Header.fields
	if r.Body == wire.NoBody || !m.replaced && x.from.N.Load() == 0 {
		return nil
	}
	if !m.replaced {
		m.length = -1
	}
	return &answer{x: x, body: m.body, length: m.length, from: x.from}
}

// frame takes the server's word about the body's end out of its answer, and
// gives ours.
func (a *answer) frame(r *wire.Response) wire.Header {
	r.Header = r.Header.Without(func(name string) bool { return name == "content-length" })
	switch {
	case a.length >= 0:
		return wire.Header{{Name: "Content-Length", Value: strconv.FormatInt(a.length, 10)}}
	case a.x.req.Minor == 1:
		return wire.Header{{Name: "Transfer-Encoding", Value: "chunked"}}
	}
	return nil
}

// pass gives the program the body as it comes.
func (a *answer) pass() error {
	x := a.x
	buf := x.s.e.buffers.Get()
	defer x.s.e.buffers.Put(buf)
	p := &body.Passage{To: x.s.client.Conn, Buffers: &x.s.e.buffers, Chunked: a.length < 0 && x.req.Minor == 1, Left: a.length}
	err := p.Copy(a.body, buf[:])
	x.down += p.N
	switch {
	case errors.Is(err, sock.ErrWrite):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errUpstream, err)
	case p.Chunked:
		return body.WriteTrailers(p.To, x.trailers(a.from.Trailers()))
	}
	return nil
}
