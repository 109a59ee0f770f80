// Package refusal words what a program receives in the place of what it asked for: an
// answer of HTTP by what the program accepts, a line for DNS, the fields of other
// protocols.
//
// Promise: the same refusal has the same reason, rule and hints in every protocol. It
// records nothing and sends nothing.
package refusal

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/errtext"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// A Refusal is what a program receives. Its JSON form is the body of an HTTP
// refusal.
type Refusal struct {
	Error   string   `json:"error"` // always "cloister"
	Status  int      `json:"status"`
	Host    string   `json:"host,omitempty"`
	Port    uint16   `json:"port,omitempty"`
	Verdict string   `json:"verdict,omitempty"` // "deny" or "ask"; empty for a refusal of protocol
	Rule    string   `json:"rule,omitempty"`
	Place   string   `json:"place,omitempty"`
	Reason  string   `json:"reason"`
	Hints   []string `json:"hints,omitempty"`

	Retry  time.Duration `json:"-"`
	answer []byte        // of that kind, sent instead of all this
	kind   string
}

func Of(v verdict.Answer, a authority.Authority) Refusal {
	r := Refusal{Status: http.StatusForbidden, Host: a.Host(), Port: a.Port(), Verdict: v.Effect, Rule: v.Rule,
		Place: v.Place, Reason: v.Reason, Hints: v.Hints}
	if r.Verdict == "" || r.Verdict == "allow" {
		r.Verdict = "deny" // an allow that is none, such as one without a record
	}
	if r.Reason == "" {
		r.Reason = "no rule allows it"
	}
	return r
}

// Explain is a verdict in one line, for DNS.
func Explain(v verdict.Answer) string {
	r := Of(v, authority.Authority{})
	parts := []string{"cloister: " + r.Reason}
	if r.Place != "" {
		parts = append(parts, r.Place)
	}
	return strings.Join(append(parts, r.Hints...), "; ")
}

// Text is the refusal for a person.
func (r Refusal) Text() string {
	var b strings.Builder
	b.WriteString("cloister refused this request")
	if r.Host != "" {
		b.WriteString(" to " + r.Host + ":" + strconv.Itoa(int(r.Port)))
	}
	b.WriteString("\nreason: " + r.Reason + "\n")
	if rule := r.Where(); rule != "" {
		b.WriteString("rule:   " + rule + "\n")
	}
	for _, h := range r.Hints {
		b.WriteString("hint:   " + h + "\n")
	}
	return b.String()
}

// Where is the rule that spoke, and where it stands.
func (r Refusal) Where() string {
	if r.Rule == verdict.Unlisted && r.Place != "" {
		return r.Rule + "; the nearest is at " + r.Place
	}
	return strings.TrimSpace(r.Rule + " " + r.Place)
}

// Response is the whole HTTP answer. It always ends the connection: what the
// program has sent behind the refused head is then no one's request.
func (r Refusal) Response(req *wire.Request) []byte {
	var sent wire.Header
	if req != nil {
		sent = req.Header
	}
	kind, body := r.Body(sent)
	h := wire.Header{
		{Name: "Content-Type", Value: kind},
		{Name: "Content-Length", Value: strconv.Itoa(len(body))},
		{Name: "Cache-Control", Value: "no-store"},
		{Name: "X-Content-Type-Options", Value: "nosniff"},
		{Name: "Connection", Value: "close"},
	}
	if wait := errtext.RetryAfter(r.Retry); wait != "" {
		h = append(h, wire.Field{Name: "Retry-After", Value: wait})
	}
	out := h.Append([]byte("HTTP/1.1 " + strconv.Itoa(r.Status) + " " + http.StatusText(r.Status) + "\r\n"))
	out = append(out, "\r\n"...)
	if req != nil && req.Method == http.MethodHead {
		return out
	}
	return append(out, body...)
}

// Body is what a program that sent these fields receives, by another status to git.
func (r *Refusal) Body(sent wire.Header) (kind string, body []byte) {
	agent, _ := sent.Get("User-Agent")
	content, _ := sent.Get("Content-Type")
	if kind, body = errtext.Git(content, r.Text()); kind != "" {
		r.Status = http.StatusOK
		return kind, body
	}
	if len(r.answer) > 0 {
		return r.kind, r.answer
	}
	if errtext.WantsText(sent.Tokens("Accept"), agent) {
		return "text/plain; charset=utf-8", []byte(r.Text())
	}
	r.Error = "cloister"
	body, _ = json.MarshalIndent(r, "", "  ") // a struct of strings and numbers
	return "application/json", append(body, '\n')
}

// OfFlow is f for the program.
func OfFlow(f verdict.Flow) Refusal {
	return Refusal{Status: f.Status, Host: f.Authority.Host(), Port: f.Authority.Port(), Rule: f.Rule, Place: f.Place,
		Reason: f.Reason, Hints: f.Hints, Retry: f.Retry}
}

// Undialed is f, whose dial ended in err, for the program.
func Undialed(f verdict.Flow, err error) Refusal {
	r := OfFlow(f)
	r.Status, r.Hints = StatusOf(err), hintsOf(err)
	return r
}

func hintsOf(err error) []string {
	if d, ok := errors.AsType[*dial.Error](err); ok {
		return d.Hints
	}
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		return form.Hints
	}
	return nil
}

func StatusOf(err error) int {
	if d, ok := errors.AsType[*dial.Error](err); ok {
		return d.Status
	}
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		return form.Status
	}
	if dial.Forbidden(err) {
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// OfEdit is e for the program.
func OfEdit(e *verdict.Refused, a authority.Authority) Refusal {
	r := Of(e.Verdict, a)
	r.Status, r.answer, r.kind = e.Answered(), e.Answer, e.ContentType
	return r
}
