package otlp

import (
	"context"
	"crypto/sha256"
	"path"
	"strconv"
	"strings"
	"time"

	"cloister/audit"
	"cloister/internal/termsafe"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Bounds of what is known of sessions that have not ended: beyond them the oldest words are
// given up, and their spans begin where they end.
const (
	mostSessions = 100_000
	mostAsked    = 1_000 // questions of one session that nothing answered yet
)

// view turns events into spans. Every ID is made of the record alone, so that what is sent again
// is the same span.
type view struct{ sessions map[string]*session }

// session is one whose end has not been read.
type session struct {
	began   audit.Event
	command audit.Event // its own command; Seq 0 until it runs
	asked   map[string]time.Time
}

func newView() *view { return &view{sessions: map[string]*session{}} }

func (v *view) live() int64 { return int64(len(v.sessions)) }

func traceOf(e audit.Event) []byte { return sum("trace", e.SessionID)[:16] }

func rootOf(e audit.Event) []byte { return sum("session", e.SessionID)[:8] }

func spanOf(e audit.Event) []byte {
	return sum("span", e.SessionID, strconv.FormatUint(e.Seq, 10))[:8]
}

func sum(words ...string) []byte {
	all := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return all[:]
}

// spans gives the spans that an event ends: its own, and a session's with that of its command
// when it is over.
func (v *view) spans(e audit.Event) []*tracepb.Span {
	if e.SessionID == "" {
		return nil
	}
	s := v.sessions[e.SessionID]
	switch {
	case e.Kind == audit.SessionStart:
		if len(v.sessions) < mostSessions {
			v.sessions[e.SessionID] = &session{began: e}
		}
		return nil
	case e.Kind == audit.SessionStop:
		delete(v.sessions, e.SessionID)
		return s.end(e)
	case e.Kind == audit.Exec && s != nil && s.command.Seq == 0:
		s.command = e // it ends with the session
		return nil
	}
	parent := rootOf(e)
	if s != nil && s.command.Seq != 0 && e.Kind != audit.Exec {
		parent = spanOf(s.command)
	}
	return []*tracepb.Span{span(e, spanOf(e), parent, s.since(e), name(e))}
}

// end gives the session's span, and that of its command.
func (s *session) end(e audit.Event) []*tracepb.Span {
	began := e.Time
	if e.DurationMS != nil {
		began = e.Time.Add(-time.Duration(*e.DurationMS) * time.Millisecond)
	}
	if s != nil {
		began = s.began.Time
	}
	root := span(e, rootOf(e), nil, began, "session "+clip(e.Session))
	if s == nil || s.command.Seq == 0 {
		return []*tracepb.Span{root}
	}
	command := span(s.command, spanOf(s.command), rootOf(e), s.command.Time, name(s.command))
	command.EndTimeUnixNano = nanos(e.Time)
	if e.ExitStatus != nil {
		command.Attributes = append(command.Attributes, wire(attribute.Int("process.exit.code", *e.ExitStatus)))
	}
	return []*tracepb.Span{command, root}
}

// since is when what an event ends began: an answer's question, or what took its time.
func (s *session) since(e audit.Event) time.Time {
	switch {
	case s != nil && e.Kind == audit.ApprovalRequest:
		if s.asked == nil {
			s.asked = map[string]time.Time{}
		}
		if len(s.asked) < mostAsked {
			s.asked[e.Resource] = e.Time
		}
	case s != nil && e.Kind == audit.ApprovalDecision:
		if at, ok := s.asked[e.Resource]; ok {
			delete(s.asked, e.Resource)
			return at
		}
	case e.DurationMS != nil && *e.DurationMS > 0:
		return e.Time.Add(-time.Duration(*e.DurationMS) * time.Millisecond)
	}
	return e.Time
}

func span(e audit.Event, id, parent []byte, from time.Time, name string) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: traceOf(e), SpanId: id, ParentSpanId: parent, Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanos(from), EndTimeUnixNano: nanos(e.Time), Attributes: wires(attributes(e)),
	}
	if e.Verdict == "deny" {
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "denied"}
	}
	return s
}

// nanos is a time on the wire; one before 1970 has no place there.
func nanos(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// name is a span's name: what was done and the host it was done to, of few different words.
func name(e audit.Event) string {
	switch {
	case e.Kind == audit.Exec:
		return "exec " + program(e.Resource)
	case e.Method != "":
		return clip(e.Method + " " + e.Host)
	case e.Host != "" && e.Port != 0:
		return clip(e.Kind + " " + e.Host + ":" + strconv.Itoa(int(e.Port)))
	case e.Host != "":
		return clip(e.Kind + " " + e.Host)
	}
	return clip(e.Kind)
}

// longestText bounds a text of an attribute, in bytes.
const longestText = 256

func clip(s string) string { return termsafe.Text(termsafe.Clip(s, longestText)) }

// program is the name of a command's program: its arguments may hold what its maker keeps secret.
func program(line string) string {
	word, _, _ := strings.Cut(line, " ")
	return clip(path.Base(word))
}

// attributes are all that leaves of an event. Resource, Reason and Arguments are free text, which
// may hold whatever a program wrote into it: they stay in the record.
func attributes(e audit.Event) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("cloister.kind", clip(e.Kind)), attribute.Int64("cloister.audit.seq", int64(e.Seq)),
	}
	text := func(key, value string) {
		if value != "" {
			out = append(out, attribute.String(key, clip(value)))
		}
	}
	text("cloister.action", e.Action)
	text("cloister.session", e.Session)
	text("cloister.session.id", e.SessionID)
	text("cloister.agent", e.Agent)
	text("cloister.isolation", e.Isolation)
	text("cloister.verdict", e.Verdict)
	rule, _, _ := strings.Cut(e.Rule, " (/") // the file that it stands in, with the folders of this machine
	text("cloister.rule", rule)
	text("cloister.policy", e.Policy)
	text("cloister.via", e.Via)
	text("server.address", e.Host)
	text("http.request.method", e.Method)
	where, _, _ := strings.Cut(e.Path, "?")
	text("url.path", where)
	if e.Kind == audit.Exec || e.Kind == audit.HostexecRequest {
		text("process.executable.name", program(e.Resource))
	}
	number := func(key string, n int64, there bool) {
		if there {
			out = append(out, attribute.Int64(key, n))
		}
	}
	number("server.port", int64(e.Port), e.Port != 0)
	number("http.response.status_code", int64(e.Status), e.Status != 0)
	number("cloister.suppressed", int64(e.Suppressed), e.Suppressed != 0)
	if e.BytesUp != nil && e.BytesDown != nil {
		number("cloister.bytes.up", *e.BytesUp, true)
		number("cloister.bytes.down", *e.BytesDown, true)
	}
	if e.ExitStatus != nil {
		number("process.exit.code", int64(*e.ExitStatus), true)
	}
	return out
}

// emit gives an event to a logger, with the span that it is part of.
func (v *view) emit(ctx context.Context, to log.Logger, e audit.Event) {
	if e.SessionID != "" {
		id := spanOf(e)
		if e.Kind == audit.SessionStart || e.Kind == audit.SessionStop {
			id = rootOf(e)
		}
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID(traceOf(e)), SpanID: trace.SpanID(id), TraceFlags: trace.FlagsSampled,
		}))
	}
	var r log.Record
	r.SetTimestamp(e.Time)
	r.SetEventName("cloister." + clip(e.Kind))
	r.SetSeverity(log.SeverityInfo)
	if e.Verdict == "deny" {
		r.SetSeverity(log.SeverityWarn)
	}
	r.SetBody(attribute.StringValue(strings.TrimSpace(name(e) + " " + clip(e.Verdict))))
	for _, a := range attributes(e) {
		r.AddAttributes(a)
	}
	to.Emit(ctx, r)
}

func wires(list []attribute.KeyValue) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(list))
	for i, a := range list {
		out[i] = wire(a)
	}
	return out
}

func wire(a attribute.KeyValue) *commonpb.KeyValue {
	v := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: a.Value.AsString()}}
	if a.Value.Type() == attribute.INT64 {
		v = &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: a.Value.AsInt64()}}
	}
	return &commonpb.KeyValue{Key: string(a.Key), Value: v}
}

func resourceOf(r *resource.Resource) *resourcepb.Resource {
	return &resourcepb.Resource{Attributes: wires(r.Attributes())}
}
