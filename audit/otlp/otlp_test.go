package otlp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/audit"
	"cloister/audit/otlp"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes what is sent, and answers as a test wants.
type collector struct {
	mu      sync.Mutex
	spans   []*tracepb.Span
	logs    int
	text    string // all that came, as it was on the wire
	metrics []string
	answer  func(path string, w http.ResponseWriter) bool // true where it answered
	asked   chan string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	select {
	case c.asked <- r.URL.Path:
	default:
	}
	if c.answer != nil && c.answer(r.URL.Path, w) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += string(body)
	switch r.URL.Path {
	case "/v1/traces":
		var q coltrace.ExportTraceServiceRequest
		if proto.Unmarshal(body, &q) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.spans = append(c.spans, q.ResourceSpans[0].ScopeSpans[0].Spans...)
	case "/v1/logs":
		var q collogs.ExportLogsServiceRequest
		if proto.Unmarshal(body, &q) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, s := range q.ResourceLogs[0].ScopeLogs {
			c.logs += len(s.LogRecords)
		}
	case "/v1/metrics":
		var q colmetrics.ExportMetricsServiceRequest
		if proto.Unmarshal(body, &q) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, m := range q.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			c.metrics = append(c.metrics, m.Name)
		}
	}
}

// newCollector starts one, with an exporter to it.
func newCollector(t *testing.T, c *collector) *otlp.Exporter {
	t.Helper()
	c.asked = make(chan string, 1000)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return exporter(t, s.URL)
}

func exporter(t *testing.T, to string) *otlp.Exporter {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	e, err := otlp.Open(t.Context(), otlp.Options{Endpoint: u, Tenant: "acme", Timeout: 5 * time.Second, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// hidden stands wherever a program inside could have written what is not to leave.
const hidden = "hunter2"

// oneSession is the record of a session.
func oneSession() []audit.Event {
	of := func(e audit.Event) audit.Event {
		e.Session, e.SessionID, e.Project, e.Reason = "w", "56c02b9c524834339a30cb9ea5b2d0f3", "/home/x/"+hidden, hidden
		return e
	}
	return []audit.Event{
		{Kind: audit.GuardianStart, Action: "start", Resource: "/run/" + hidden},
		of(audit.Event{Kind: audit.SessionStart, Action: "start", Verdict: "allow"}),
		of(audit.Event{Kind: audit.Exec, Action: "start", Resource: "/bin/sh -c " + hidden}),
		of(audit.Event{Kind: audit.NetDNS, Action: "resolve", Host: "example.com", Verdict: "ask", Resource: "example.com",
			Rule: "ask example.com (/home/" + hidden + "/config.yaml:5:11)"}),
		of(audit.Event{Kind: audit.ApprovalRequest, Action: "connect", Host: "example.com", Port: 443, Resource: "example.com:443"}),
		of(audit.Event{Kind: audit.ApprovalDecision, Action: "connect", Host: "example.com", Port: 443, Resource: "example.com:443", Verdict: "allow"}),
		of(audit.Event{Kind: audit.HTTPRequest, Action: "request", Host: "example.com", Port: 443, Method: "GET",
			Path: "/a?token=" + hidden, Status: 200, Verdict: "allow", DurationMS: new(int64(25)), BytesUp: new(int64(7)), BytesDown: new(int64(9))}),
		of(audit.Event{Kind: audit.MCPCall, Action: "call", Resource: hidden, Arguments: hidden, Verdict: "deny"}),
		of(audit.Event{Kind: audit.HostexecRequest, Resource: "/usr/bin/npm install " + hidden, Verdict: "deny"}),
		of(audit.Event{Kind: audit.Exec, Action: "start", Resource: "git clone " + hidden}),
		of(audit.Event{Kind: audit.SessionStop, Action: "stop", ExitStatus: new(3), DurationMS: new(int64(99))}),
	}
}

// recorded writes events as a record.
func recorded(t *testing.T, events []audit.Event) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "audit")
	l, err := audit.Open(dir, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func run(t *testing.T, e *otlp.Exporter, dir, ledger string) error {
	t.Helper()
	return e.Run(t.Context(), otlp.Source{Dir: dir, Ledger: ledger, Bad: func(err error) { t.Error(err) }})
}

func TestATraceOfASession(t *testing.T) {
	c := &collector{}
	e := newCollector(t, c)
	dir, ledger := recorded(t, oneSession()), filepath.Join(t.TempDir(), "sent.json")
	if err := run(t, e, dir, ledger); err != nil {
		t.Fatal(err)
	}
	if got := e.Counts(); got != (otlp.Counts{Sent: 11}) {
		t.Errorf("counts: %+v", got)
	}
	byID := map[string]*tracepb.Span{}
	for _, s := range c.spans {
		byID[string(s.SpanId)] = s
		if string(s.TraceId) != string(c.spans[0].TraceId) || len(s.TraceId) != 16 || len(s.SpanId) != 8 {
			t.Errorf("%s is of another trace", s.Name)
		}
		if s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%s ends before it begins", s.Name)
		}
	}
	parents := map[string]string{}
	for _, s := range c.spans {
		if p := byID[string(s.ParentSpanId)]; p != nil {
			parents[s.Name] = p.Name
		} else if len(s.ParentSpanId) > 0 {
			t.Errorf("%s has a parent that was not sent", s.Name)
		}
	}
	for child, parent := range map[string]string{
		"exec sh": "session w", "exec git": "session w", "net.dns example.com": "exec sh", "GET example.com": "exec sh",
		"approval.decision example.com:443": "exec sh", "mcp.call": "exec sh", "hostexec.request": "exec sh",
	} {
		if parents[child] != parent {
			t.Errorf("%q is below %q, want %q", child, parents[child], parent)
		}
	}
	if len(c.spans) != 9 || c.logs != 11 || !strings.Contains(strings.Join(c.metrics, " "), "cloister.events") {
		t.Errorf("%d spans, %d logs, metrics %v", len(c.spans), c.logs, c.metrics)
	}
	if strings.Contains(c.text, hidden) {
		t.Error("free text of the record left")
	}
	if !strings.Contains(c.text, "acme") || !strings.Contains(c.text, "/a") {
		t.Error("the control: not even what is to leave has left")
	}
	// Another run has nothing to send.
	again := newCollector(t, c)
	if err := run(t, again, dir, ledger); err != nil || again.Counts().Sent != 0 || c.logs != 11 {
		t.Errorf("again: %v, %+v, %d logs", err, again.Counts(), c.logs)
	}
	// And it takes no other record for this one.
	if err := run(t, newCollector(t, c), recorded(t, oneSession()), ledger); !errors.Is(err, otlp.ErrOther) {
		t.Errorf("another record: %v", err)
	}
}

func TestWhatACollectorAnswers(t *testing.T) {
	partial, err := proto.Marshal(&coltrace.ExportTraceServiceResponse{
		PartialSuccess: &coltrace.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "\x1b[31mno"},
	})
	if err != nil {
		t.Fatal(err)
	}
	once := func(f func(http.ResponseWriter)) func(string, http.ResponseWriter) bool {
		var done atomic.Bool
		return func(path string, w http.ResponseWriter) bool {
			if path != "/v1/traces" || !done.CompareAndSwap(false, true) {
				return false
			}
			f(w)
			return true
		}
	}
	always := func(f func(http.ResponseWriter)) func(string, http.ResponseWriter) bool {
		return func(path string, w http.ResponseWriter) bool {
			if path == "/v1/traces" {
				f(w)
			}
			return path == "/v1/traces"
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the record was led elsewhere") }))
	defer elsewhere.Close()
	code := func(n int) func(http.ResponseWriter) { return func(w http.ResponseWriter) { w.WriteHeader(n) } }
	for name, c := range map[string]struct {
		answer func(string, http.ResponseWriter) bool
		want   otlp.Counts
	}{
		"refuses a part": {always(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(partial)
		}), otlp.Counts{Refused: 11}},
		"refuses all": {always(code(http.StatusBadRequest)), otlp.Counts{Refused: 11}},
		"leads elsewhere": {always(func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}), otlp.Counts{Refused: 11}},
		"answers without an end": {always(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			for range 100 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}), otlp.Counts{Refused: 11}},
		"is busy once":    {once(code(http.StatusServiceUnavailable)), otlp.Counts{Sent: 11, Retries: 1}},
		"says later once": {once(code(http.StatusTooManyRequests)), otlp.Counts{Sent: 11, Retries: 1}},
		"hangs up once":   {once(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }), otlp.Counts{Sent: 11, Retries: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newCollector(t, &collector{answer: c.answer})
			if err := run(t, e, recorded(t, oneSession()), filepath.Join(t.TempDir(), "sent.json")); err != nil {
				t.Fatal(err)
			}
			if got := e.Counts(); got != c.want {
				t.Errorf("counts: %+v, want %+v", got, c.want)
			}
		})
	}
}

// A collector that hangs, or none: the record is written meanwhile as ever, and is sent by the next
// run as a whole.
func TestACollectorThatHangs(t *testing.T) {
	hang := make(chan struct{})
	c := &collector{answer: func(string, http.ResponseWriter) bool { <-hang; return true }}
	e := newCollector(t, c)
	dir, ledger := filepath.Join(t.TempDir(), "audit"), filepath.Join(t.TempDir(), "sent.json")
	l, err := audit.Open(dir, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, otlp.Source{Dir: dir, Ledger: ledger, Follow: true, Bad: func(err error) { t.Error(err) }})
	}()
	first := oneSession()
	if err := l.Append(t.Context(), first[0]); err != nil {
		t.Fatal(err)
	}
	<-c.asked // it hangs from here on
	for range 2000 {
		if err := l.Append(t.Context(), first[6]); err != nil { // a decision does no more
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	stop()
	close(hang)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	whole := &collector{}
	if next := newCollector(t, whole); run(t, next, dir, ledger) != nil || next.Counts().Sent != 2001 || whole.logs != 2001 {
		t.Errorf("the next run sent %+v, %d logs", next.Counts(), whole.logs)
	}
}

// TestAnAnswerThatBreaksOff: it says nothing of what was taken, so the batch is sent again.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	var broken atomic.Bool
	c := &collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/logs" || broken.Swap(true) {
			c.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	e := exporter(t, s.URL)
	if err := e.Send(t.Context(), oneSession()); err != nil {
		t.Fatal(err)
	}
	got := e.Counts()
	if got.Refused != 0 || got.Sent != uint64(len(oneSession())) || got.Retries == 0 || c.logs == 0 {
		t.Errorf("%+v, %d log records", got, c.logs)
	}
}
