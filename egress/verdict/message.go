package verdict

import (
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"cloister/egress/internal/wire"
	"cloister/internal/authority"
	"cloister/internal/fieldname"
)

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

// NewMessage is m with its fields and a body of a length, -1 where no one knows it.
func NewMessage(m Message, fields wire.Header, body io.Reader, length int64) *Message {
	m.Header, m.body, m.length = Header{fields: fields}, body, length
	return &m
}

// Replaced reports whether SetBody was called.
func (m *Message) Replaced() bool { return m.replaced }

// Body is what the other side sends, decoded from its framing but not from its
// Content-Encoding. It is empty, never nil, where there is none. Who reads of it
// gives back by SetBody what shall be sent.
func (m *Message) Body() io.Reader { return m.body }

// Host is the header Host as it is sent.
func (m *Message) Host() string {
	if m.Secure {
		return HostField(m.Authority, 443)
	}
	return HostField(m.Authority, 80)
}

// Length is how long Body is, or -1 where no one knows.
func (m *Message) Length() int64 { return m.length }

// SetBody sends r in the place of the body. What r gives is passed on at once, so
// a filter holds back no more than it must; an error of r that is not io.EOF
// breaks the message off. length is how much r gives, or -1.
func (m *Message) SetBody(r io.Reader, length int64) {
	m.body, m.length, m.replaced = r, length, true
}

// Header are the fields of a message under an Edit. Those that say where a
// message ends or goes (Host, Content-Length, Transfer-Encoding, Connection and
// its like) are the gate's: to change one refuses the message.
type Header struct {
	fields wire.Header
	err    error
}

// Fields are all of them, in order.
func (h *Header) Fields() wire.Header { return h.fields }

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

func (m *Message) checked(err error) error {
	if err == nil {
		err = m.Header.err
	}
	if err != nil {
		return refusedBy(err)
	}
	return nil
}

// HostField is the Host of an authority, without the port that its scheme means.
func HostField(a authority.Authority, implied uint16) string {
	text := a.String()
	if a.Port() == implied {
		text = strings.TrimSuffix(text, ":"+strconv.Itoa(int(implied)))
	}
	return text
}
