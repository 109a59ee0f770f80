package egress

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/errtext"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
)

// A refusal is what a program receives. Its JSON form is the body of an HTTP
// refusal.
type refusal struct {
	Error   string   `json:"error"` // always "cloister"
	Status  int      `json:"status"`
	Host    string   `json:"host,omitempty"`
	Port    uint16   `json:"port,omitempty"`
	Verdict string   `json:"verdict,omitempty"` // "deny" or "ask"; empty for a refusal of protocol
	Rule    string   `json:"rule,omitempty"`
	Place   string   `json:"place,omitempty"`
	Reason  string   `json:"reason"`
	Hints   []string `json:"hints,omitempty"`

	retry  time.Duration
	answer []byte // of that kind, told instead of all this
	kind   string
}

func refusalOf(v Verdict, a authority.Authority) refusal {
	r := refusal{Status: http.StatusForbidden, Host: a.Host(), Port: a.Port(), Verdict: v.Effect, Rule: v.Rule,
		Place: v.Place, Reason: v.Reason, Hints: v.Hints}
	if r.Verdict == "" || r.Verdict == "allow" {
		r.Verdict = "deny" // an allow that is none, such as one without a record
	}
	if r.Reason == "" {
		r.Reason = "no rule allows it"
	}
	return r
}

// explain is a verdict in one line, for DNS.
func explain(v Verdict) string {
	r := refusalOf(v, authority.Authority{})
	parts := []string{"cloister: " + r.Reason}
	if r.Place != "" {
		parts = append(parts, r.Place)
	}
	return strings.Join(append(parts, r.Hints...), "; ")
}

// text is the refusal for a person.
func (r refusal) text() string {
	var b strings.Builder
	b.WriteString("cloister refused this request")
	if r.Host != "" {
		b.WriteString(" to " + r.Host + ":" + strconv.Itoa(int(r.Port)))
	}
	b.WriteString("\nreason: " + r.Reason + "\n")
	if rule := r.where(); rule != "" {
		b.WriteString("rule:   " + rule + "\n")
	}
	for _, h := range r.Hints {
		b.WriteString("hint:   " + h + "\n")
	}
	return b.String()
}

// where is the rule that spoke, and where it stands.
func (r refusal) where() string {
	if r.Rule == Unlisted && r.Place != "" {
		return r.Rule + "; the nearest is at " + r.Place
	}
	return strings.TrimSpace(r.Rule + " " + r.Place)
}

// response is the whole HTTP answer. It always ends the connection: what the
// program has sent behind the refused head is then no one's request.
func (r refusal) response(req *wire.Request) []byte {
	var sent wire.Header
	if req != nil {
		sent = req.Header
	}
	kind, body := r.body(sent)
	h := wire.Header{
		{Name: "Content-Type", Value: kind},
		{Name: "Content-Length", Value: strconv.Itoa(len(body))},
		{Name: "Cache-Control", Value: "no-store"},
		{Name: "X-Content-Type-Options", Value: "nosniff"},
		{Name: "Connection", Value: "close"},
	}
	if wait := errtext.RetryAfter(r.retry); wait != "" {
		h = append(h, wire.Field{Name: "Retry-After", Value: wait})
	}
	out := h.Append([]byte("HTTP/1.1 " + strconv.Itoa(r.Status) + " " + http.StatusText(r.Status) + "\r\n"))
	out = append(out, "\r\n"...)
	if req != nil && req.Method == http.MethodHead {
		return out
	}
	return append(out, body...)
}

// body is what a program that sent these fields is told, by another status to git.
func (r *refusal) body(sent wire.Header) (kind string, body []byte) {
	agent, _ := sent.Get("User-Agent")
	content, _ := sent.Get("Content-Type")
	if kind, body = errtext.Git(content, r.text()); kind != "" {
		r.Status = http.StatusOK
		return kind, body
	}
	if len(r.answer) > 0 {
		return r.kind, r.answer
	}
	if errtext.WantsText(sent.Tokens("Accept"), agent) {
		return "text/plain; charset=utf-8", []byte(r.text())
	}
	r.Error = "cloister"
	body, _ = json.MarshalIndent(r, "", "  ") // a struct of strings and numbers
	return "application/json", append(body, '\n')
}

// reset ends the program's connection with RST, and the dialled one with it.
func (s *stream) reset() {
	sock.Reset(s.client.Conn)
	if s.up != nil {
		sock.Reset(s.up.Conn)
	}
}

// say sends the last bytes and closes so that they arrive: a close with unread
// input would send RST, which can overtake them, so the input is drained for a
// moment.
func (s *stream) say(b []byte) {
	_ = s.client.SetDeadline(time.Now().Add(time.Second))
	if _, err := s.client.Conn.Write(b); err != nil {
		s.reset()
		return
	}
	if peek.CloseWrite(s.client.Conn) == nil {
		_, _ = io.Copy(io.Discard, s.client.Conn) // whatever comes in that moment, it is not read for its content
	}
	_ = s.client.Close()
}

// refused fills in what a bound or the form of a request says.
func (f *Flow) refused(form *formError) {
	f.Status, f.Reason, f.Detail = form.status, form.reason, form.detail
	f.Rule, f.Place, f.Hints, f.retry = form.rule, form.place, form.hints, form.retry
}

// refusal is f for the program.
func (f Flow) refusal() refusal {
	return refusal{Status: f.Status, Host: f.Authority.Host(), Port: f.Authority.Port(), Rule: f.Rule, Place: f.Place,
		Reason: f.Reason, Hints: f.Hints, retry: f.retry}
}

// undialed is f, whose dial ended in err, for the program.
func (f Flow) undialed(err error) refusal {
	r := f.refusal()
	r.Status, r.Hints = statusOf(err), hintsOf(err)
	return r
}

// refuseRaw records a refusal and resets.
func (s *stream) refuseRaw(f Flow) {
	s.e.refused(s.flow(f))
	s.reset()
}

func hintsOf(err error) []string {
	if d, ok := errors.AsType[*dial.Error](err); ok {
		return d.Hints
	}
	if form, ok := errors.AsType[*formError](err); ok {
		return form.hints
	}
	return nil
}

func statusOf(err error) int {
	if d, ok := errors.AsType[*dial.Error](err); ok {
		return d.Status
	}
	if form, ok := errors.AsType[*formError](err); ok {
		return form.status
	}
	if Forbidden(err) {
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// refuseForm refuses a protocol that has no place on this port.
func (s *stream) refuseForm(reason string) {
	f := s.flow(Flow{Kind: Connect, Reason: reason})
	if !s.e.refused(f) {
		s.reset()
		return
	}
	s.refuseAs(refusal{Status: http.StatusBadRequest, Host: s.target.Host(), Port: s.target.Port(), Reason: reason})
}

// refuseSilent ends a connection whose first bytes did not come.
func (s *stream) refuseSilent(err error) {
	f := s.flow(Flow{Kind: Connect, Reason: "first bytes: " + endOf(err)})
	if cause := s.killed(); cause != nil {
		f.Reason = cause.Error()
	}
	f.Duration = time.Since(f.Start)
	s.e.cfg.Journal.Closed(f)
	s.reset()
}

// refuseTLS records and answers with an alert.
func (s *stream) refuseTLS(f Flow) {
	if !s.e.refused(s.flow(f)) {
		s.reset()
		return
	}
	s.say(errtext.Alert(http.StatusForbidden))
}

// refuseAs answers in the protocol that the program speaks or shows in a moment, or by
// a reset.
func (s *stream) refuseAs(r refusal) {
	s.readBy(classifyRefused)
	for {
		kind, err := wire.GuessProtocol(s.client.Held())
		if errors.Is(err, wire.ErrShort) {
			if s.client.Fill(wire.MaxHead) == nil {
				continue
			}
		}
		switch {
		case err == nil && kind == wire.TLS:
			s.say(errtext.Alert(r.Status))
		case err == nil && kind == wire.HTTP:
			s.readBy(classifyRefused)
			req, _ := s.readRequest() // only for what it accepts; a bad head gets JSON
			s.say(r.response(req))
		default:
			s.reset()
		}
		return
	}
}
