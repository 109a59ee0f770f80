package otlp

import (
	"cmp"
	"slices"
	"time"

	"cloister/audit"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// totals are the counts of one exporter since it began. Their keys are of closed sets, so that no
// program inside makes them many.
type totals struct {
	since    time.Time
	events   map[[2]string]int64 // by kind and verdict
	up, down int64
}

func newTotals(since time.Time) *totals {
	return &totals{since: since, events: map[[2]string]int64{}}
}

func (t *totals) add(e audit.Event) {
	kind := e.Kind
	if !slices.Contains(audit.Kinds(), kind) {
		kind = "other" // of a later version's record
	}
	verdict := e.Verdict
	if !slices.Contains([]string{"", "allow", "ask", "deny"}, verdict) {
		verdict = "other"
	}
	t.events[[2]string{kind, verdict}] += 1 + int64(e.Suppressed)
	if e.BytesUp != nil && e.BytesDown != nil {
		t.up, t.down = t.up+*e.BytesUp, t.down+*e.BytesDown
	}
}

// metrics are the counts as the exporter takes them.
func (t *totals) metrics(res *resource.Resource, live int64) *metricdata.ResourceMetrics {
	now := time.Now()
	point := func(n int64, with ...attribute.KeyValue) metricdata.DataPoint[int64] {
		set := attribute.NewSet(with...)
		return metricdata.DataPoint[int64]{Attributes: set, StartTime: t.since, Time: now, Value: n}
	}
	sum := func(name, about, unit string, points []metricdata.DataPoint[int64]) metricdata.Metrics {
		return metricdata.Metrics{Name: name, Description: about, Unit: unit, Data: metricdata.Sum[int64]{
			DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
		}}
	}
	var events []metricdata.DataPoint[int64]
	for key, n := range t.events {
		kind, verdict := attribute.String("cloister.kind", key[0]), attribute.String("cloister.verdict", key[1])
		events = append(events, point(n, kind, verdict))
	}
	slices.SortFunc(events, func(a, b metricdata.DataPoint[int64]) int { return cmp.Compare(a.Value, b.Value) })
	way := func(word string) attribute.KeyValue { return attribute.String("network.io.direction", word) }
	return &metricdata.ResourceMetrics{Resource: res, ScopeMetrics: []metricdata.ScopeMetrics{{
		Scope: instrumentation.Scope{Name: "cloister/audit"},
		Metrics: []metricdata.Metrics{
			sum("cloister.events", "recorded events", "{event}", events),
			sum("cloister.bytes", "bytes of recorded connections and requests", "By",
				[]metricdata.DataPoint[int64]{point(t.up, way("transmit")), point(t.down, way("receive"))}),
			{Name: "cloister.sessions", Description: "sessions that have not ended", Unit: "{session}",
				Data: metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{point(live)}}},
		},
	}}}
}
