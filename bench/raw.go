package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// raw is one run of the bench, as it is kept.
type raw struct {
	Time    time.Time         `json:"time"`
	Commit  string            `json:"commit"`
	Dirty   bool              `json:"dirty"` // the tree differs from the commit
	Machine string            `json:"machine"`
	Cores   int               `json:"cores"`
	MemoryG int               `json:"memory_gib"`
	Kernel  string            `json:"kernel"`
	Go      string            `json:"go"`
	User    string            `json:"user"` // root or user
	Load    string            `json:"load"` // the load average when it began
	Short   bool              `json:"short,omitempty"`
	Peers   map[string]string `json:"peers"` // version, or why it is missing
	Series  []series          `json:"series"`
}

// series are the values of one contender on one subject.
type series struct {
	Subject   string    `json:"subject"`
	Contender string    `json:"contender"`
	Unit      string    `json:"unit"`
	Values    []float64 `json:"values"`
}

func (r *raw) add(subject, contender, unit string, value float64) {
	for i := range r.Series {
		if s := &r.Series[i]; s.Subject == subject && s.Contender == contender {
			s.Values = append(s.Values, round(value))
			return
		}
	}
	r.Series = append(r.Series, series{subject, contender, unit, []float64{round(value)}})
}

// round keeps four digits: more would be noise.
func round(v float64) float64 {
	var out float64
	_, _ = fmt.Sscanf(fmt.Sprintf("%.4g", v), "%g", &out)
	return out
}

func (r *raw) find(subject, contender string) (series, bool) {
	for _, s := range r.Series {
		if s.Subject == subject && s.Contender == contender {
			return s, true
		}
	}
	return series{}, false
}

func (s series) sorted() []float64 { return slices.Sorted(slices.Values(s.Values)) }

func (s series) median() float64 {
	v := s.sorted()
	if len(v)%2 == 0 {
		return (v[len(v)/2-1] + v[len(v)/2]) / 2
	}
	return v[len(v)/2]
}

func (s series) at(quantile float64) float64 {
	v := s.sorted()
	return v[min(len(v)-1, int(quantile*float64(len(v))))]
}

// table is what a person sees at once: every series with its median.
func (r *raw) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %-28s %10s %10s %10s  %s\n", "subject", "contender", "median", "10%", "90%", "unit (rounds)")
	for _, s := range r.Series {
		fmt.Fprintf(&b, "%-16s %-28s %10.4g %10.4g %10.4g  %s (%d)\n", s.Subject, s.Contender, s.median(), s.at(0.1), s.at(0.9), s.Unit, len(s.Values))
	}
	for _, l := range judge(r) {
		fmt.Fprintf(&b, "%s: %s %s, budget %s: %s\n", l.title, l.value, l.against, l.bound, l.word())
	}
	return b.String()
}

var numberList = regexp.MustCompile(`\[[\s\d.,e+-]+\]`)

// compact puts a list of numbers on one line.
func compact(text []byte) []byte {
	return numberList.ReplaceAllFunc(text, func(list []byte) []byte {
		return bytes.Join(bytes.Fields(list), nil)
	})
}

// added is what something takes longer than directly, round by round.
func (w *world) added(subject, p, unit string) {
	direct, ok := w.raw.find(subject+" "+p, "direct")
	if !ok {
		return
	}
	for _, name := range []string{ours, leastLoop, "squid", "mitmproxy"} {
		s, ok := w.raw.find(subject+" "+p, name)
		for i := 0; ok && i < min(len(s.Values), len(direct.Values)); i++ {
			w.raw.add("added "+p+ofWhat(subject), name, unit, s.Values[i]-direct.Values[i])
		}
	}
}

// ofWhat keeps the old names of what a request adds.
func ofWhat(subject string) string {
	if subject == "request" {
		return ""
	}
	return ", " + subject
}

func at(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(float64(len(sorted))*part), len(sorted)-1)]
}
