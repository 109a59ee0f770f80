// Package otlp sends the record to an OpenTelemetry collector: a trace of each session, a log
// record of each event, and counts of both.
//
// The promise: it reads the record and nothing else, so no decision waits for a collector; a
// batch is sent again until the collector took it, and one that it refused for good is counted
// ([Counts]). What leaves is a closed list of attributes: no argument, no command line beyond
// the program's name, no query of a path, no free text.
//
// It does not prove the record (package audit does), and keeps no queue: the record is the queue.
//
// Most readers want [Open] with [Exporter.Send].
package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"cloister/audit"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Options say where a record goes.
type Options struct {
	// Endpoint is the collector's address for OTLP over HTTP, such as http://127.0.0.1:4318.
	Endpoint *url.URL
	Headers  map[string]string
	TLS      *tls.Config // nil for the machine's authorities
	// Tenant names whose record it is; empty for the person's own.
	Tenant string
	// Timeout bounds one request; 10 s when 0.
	Timeout time.Duration
	// Pause is the time before the first repetition of a request, which doubles up to a
	// minute; 1 s when 0.
	Pause time.Duration
}

// Counts are what became of the record's events so far.
type Counts struct {
	Sent    uint64 // events that the collector took whole
	Refused uint64 // events of batches that it refused for good, or a part of which it refused
	Retries uint64 // requests that were made again
}

// Exporter sends one record. It is used by one goroutine, but for Counts.
type Exporter struct {
	o       Options
	client  *http.Client
	status  *status
	traces  otlptrace.Client
	logs    *otlploghttp.Exporter
	taken   *taken
	log     *sdklog.LoggerProvider
	metrics *otlpmetrichttp.Exporter
	res     *resource.Resource
	view    *view
	totals  *totals

	sent, refused, retries atomic.Uint64
}

// most bounds an answer of the collector, in bytes.
const most = 64 << 10

// Open prepares the three exporters; it sends nothing.
func Open(ctx context.Context, o Options) (*Exporter, error) {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Pause <= 0 {
		o.Pause = time.Second
	}
	st := &status{next: &http.Transport{TLSClientConfig: o.TLS, MaxIdleConns: 2, IdleConnTimeout: time.Minute}}
	// A redirection would lead the record to a place that no person named.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Transport: st, CheckRedirect: stay}
	at := func(signal string) string { return o.Endpoint.JoinPath("v1", signal).String() }
	e := &Exporter{
		o: o, client: client, status: st, taken: &taken{}, view: newView(), totals: newTotals(time.Now()),
		res: resource.NewSchemaless(
			attribute.String("service.name", "cloister"), attribute.String("cloister.tenant", o.Tenant)),
	}
	e.traces = otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(at("traces")), otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithHTTPClient(client), otlptracehttp.WithTimeout(o.Timeout),
		otlptracehttp.WithMaxResponseSize(most), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err := e.traces.Start(ctx); err != nil {
		return nil, fmt.Errorf("open otlp: %w", err)
	}
	var err error
	e.logs, err = otlploghttp.New(ctx, otlploghttp.WithEndpointURL(at("logs")), otlploghttp.WithHeaders(o.Headers),
		otlploghttp.WithHTTPClient(client), otlploghttp.WithTimeout(o.Timeout), otlploghttp.WithMaxResponseSize(most),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("open otlp: %w", err)
	}
	e.metrics, err = otlpmetrichttp.New(ctx,
		otlpmetrichttp.WithEndpointURL(at("metrics")), otlpmetrichttp.WithHeaders(o.Headers),
		otlpmetrichttp.WithHTTPClient(client), otlpmetrichttp.WithTimeout(o.Timeout),
		otlpmetrichttp.WithMaxResponseSize(most), otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("open otlp: %w", err)
	}
	e.log = sdklog.NewLoggerProvider(sdklog.WithResource(e.res), sdklog.WithProcessor(e.taken))
	return e, nil
}

// Skip notes events that an earlier process sent, so that the sessions they began are known.
func (e *Exporter) Skip(event audit.Event) { e.view.spans(event) }

// Send sends events in their order and returns when the collector took them, or refused them for
// good. Its error is the context's: until that ends, a request that failed is made again.
func (e *Exporter) Send(ctx context.Context, events []audit.Event) error {
	if len(events) == 0 {
		return nil
	}
	var spans []*tracepb.Span
	for _, event := range events {
		spans = append(spans, e.view.spans(event)...)
		e.view.emit(ctx, e.log.Logger("cloister/audit"), event)
		e.totals.add(event)
	}
	logs := e.taken.take()
	whole := true
	for _, send := range []func(context.Context) error{
		func(ctx context.Context) error { return e.uploadTraces(ctx, spans) },
		func(ctx context.Context) error { return e.logs.Export(ctx, logs) },
		func(ctx context.Context) error { return e.metrics.Export(ctx, e.totals.metrics(e.res, e.view.live())) },
	} {
		ok, err := e.until(ctx, send)
		if err != nil {
			return err
		}
		whole = whole && ok
	}
	if whole {
		e.sent.Add(uint64(len(events)))
	} else {
		e.refused.Add(uint64(len(events)))
	}
	return nil
}

func (e *Exporter) uploadTraces(ctx context.Context, spans []*tracepb.Span) error {
	if len(spans) == 0 {
		return nil
	}
	return e.traces.UploadTraces(ctx, []*tracepb.ResourceSpans{{
		Resource: resourceOf(e.res), ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}},
	}})
}

// longest is the longest pause between two requests.
const longest = time.Minute

// until makes a request until it is answered for good; ok is false where the answer was a refusal
// of all of it or of a part.
func (e *Exporter) until(ctx context.Context, send func(context.Context) error) (ok bool, err error) {
	for pause := e.o.Pause; ; pause = min(2*pause, longest) {
		e.status.code.Store(0)
		e.status.cut.Store(false)
		within, cancel := context.WithTimeout(ctx, e.o.Timeout)
		err := send(within)
		cancel()
		switch code := int(e.status.code.Load()); {
		case err == nil:
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case final(code) && !e.status.cut.Load(): // an answer that breaks off says nothing of what was taken
			return false, nil
		}
		e.retries.Add(1)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		case <-timer.C:
		}
	}
}

// final reports whether an answer that came with an error will be the same next time: a part was
// refused (2xx), or the request as such was. What says "later" by its code, or nothing, does not.
func final(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= 200 && code < 500
	}
}

// Counts are the numbers so far.
func (e *Exporter) Counts() Counts {
	return Counts{Sent: e.sent.Load(), Refused: e.refused.Load(), Retries: e.retries.Load()}
}

// Close lets the connections go.
func (e *Exporter) Close(ctx context.Context) error {
	err := errors.Join(e.traces.Stop(ctx), e.logs.Shutdown(ctx), e.metrics.Shutdown(ctx))
	e.client.CloseIdleConnections()
	return err
}

// status notes the status of the last answer, which the exporters' errors do not hold, whether
// it broke off, and bounds its body.
type status struct {
	next *http.Transport
	code atomic.Int64
	cut  atomic.Bool
}

func (s *status) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err == nil {
		s.code.Store(int64(resp.StatusCode))
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&noting{io.LimitReader(resp.Body, most), &s.cut}, resp.Body}
	}
	return resp, err
}

// noting notes that a body broke off.
type noting struct {
	io.Reader

	cut *atomic.Bool
}

func (n *noting) Read(p []byte) (int, error) {
	k, err := n.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.cut.Store(true)
	}
	return k, err
}

// CloseIdleConnections is what http.Client looks for.
func (s *status) CloseIdleConnections() { s.next.CloseIdleConnections() }

// taken collects the log records of one batch.
type taken struct{ records []sdklog.Record }

func (t *taken) take() []sdklog.Record {
	out := t.records
	t.records = nil
	return out
}

// OnEmit, Enabled, Shutdown and ForceFlush make it a processor of the SDK's.
func (t *taken) OnEmit(_ context.Context, r *sdklog.Record) error {
	t.records = append(t.records, r.Clone())
	return nil
}
func (t *taken) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (t *taken) Shutdown(context.Context) error                         { return nil }
func (t *taken) ForceFlush(context.Context) error                       { return nil }
