package request

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/quota"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/stream"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
)

// A life is what was seen of one request: each step in its order.
type life struct {
	steps  []string
	allow  bool
	edits  []verdict.Edit
	fail   map[string]error // by step
	panics string           // the step that panics
	deaf   bool             // the journal cannot write
	second *bool            // policy changes as it is decided; what is decided then
	cancel context.CancelFunc
	req    *Request
}

func (l *life) step(name string) error {
	l.steps = append(l.steps, name)
	if l.panics == name {
		panic("a fault at " + name)
	}
	if errors.Is(l.fail[name], errAbandoned) {
		l.cancel()
	}
	return l.fail[name]
}

var errAbandoned = errors.New("abandoned")

func (l *life) Decide(_ context.Context, q verdict.Query) verdict.Answer {
	_ = l.step("decide")
	if l.second != nil && len(l.steps) == 1 {
		l.req.Stream.Session.Generation.Add(1)
		defer func() { l.allow = *l.second }()
	} else if l.req.recorded || len(l.steps) > 1 && l.second == nil {
		l.steps = append(l.steps, "decided late")
	}
	return verdict.Answer{Allow: l.allow, Effect: "deny", Reason: "no", Edits: l.edits}
}

func (l *life) Closed(f verdict.Flow) { l.steps = append(l.steps, "closed "+f.Reason) }
func (l *life) Refused(f verdict.Flow) error {
	l.steps = append(l.steps, "refused "+f.Reason)
	if l.deaf {
		return errors.New("no disk")
	}
	return nil
}

// The codec of a life carries nothing.
func (l *life) Message() *verdict.Message {
	_ = l.step("message")
	return verdict.NewMessage(verdict.Message{}, nil, http.NoBody, 0)
}

func (l *life) Send(ctx context.Context, m *verdict.Message) (*verdict.Message, error) {
	if (m != nil) != (len(l.edits) > 0) {
		l.steps = append(l.steps, "unedited")
	}
	if err := l.step("send"); err != nil {
		if errors.Is(err, errAbandoned) && ctx.Err() == nil {
			l.steps = append(l.steps, "context alive")
		}
		return nil, err
	}
	l.req.Status = http.StatusOK
	if len(l.edits) == 0 {
		return nil, nil
	}
	return verdict.NewMessage(verdict.Message{Status: http.StatusOK}, nil, http.NoBody, 0), nil
}

func (l *life) Pass(*verdict.Message) error { l.req.Answered = true; return l.step("pass") }

func (l *life) End(err error) error {
	l.steps = append(l.steps, "end")
	if err == nil || Refuses(err) {
		return err
	}
	return &Broken{Reason: err.Error()}
}

func (l *life) Refuse(r *refusal.Refusal) {
	if r == nil {
		l.steps = append(l.steps, "break off")
		return
	}
	l.steps = append(l.steps, "answer "+http.StatusText(r.Status))
}

// Each step of a request's life fails in turn. What comes behind it does not happen,
// and the record has one line, whatever happens: that of the Decider, which is denied
// by, or one of the Journal.
func TestRequestIsRecordedOnce(t *testing.T) {
	form := &verdict.Form{Status: http.StatusBadRequest, Reason: "form"}
	stop := &verdict.Refused{Verdict: verdict.Answer{Reason: "edit"}}
	edit := func(name string, l **life) verdict.Edit {
		return verdict.Edit{Request: func(*verdict.Message) error { return (*l).step(name + " up") },
			Response: func(*verdict.Message) error { return (*l).step(name + " down") }}
	}
	tests := map[string]struct {
		bad   error
		quota quota.Bounds
		full  bool
		held  bool // the memory is gone once it is decided
		life  life
		edits []string
		want  string
	}{
		"whole":            {life: life{allow: true}, want: "decide, send, pass, end, closed "},
		"edited":           {life: life{allow: true}, edits: []string{"a", "b"}, want: "decide, message, a up, b up, send, b down, a down, pass, end, closed "},
		"late memory":      {held: true, life: life{allow: true}, want: "decide, end, refused MEMORY, answer Service Unavailable"},
		"no more, decided": {life: life{allow: true, second: new(false)}, want: "decide, decide, answer Forbidden"},
		"again, decided":   {life: life{allow: true, second: new(true)}, want: "decide, decide, send, pass, end, closed "},
		"form":             {bad: form, life: life{allow: true}, want: "refused form, answer Bad Request"},
		"form, deaf":       {bad: form, life: life{allow: true, deaf: true}, want: "refused form, break off"},
		"quota":            {quota: quota.Bounds{RequestsPerMinute: -1}, life: life{allow: true}, want: "refused QUOTA, answer Too Many Requests"},
		"early memory":     {full: true, life: life{allow: true}, want: "refused MEMORY, answer Service Unavailable"},
		"denied":           {life: life{}, want: "decide, answer Forbidden"},
		"edit up":          {life: life{allow: true, fail: map[string]error{"a up": stop}}, edits: []string{"a", "b"}, want: "decide, message, a up, end, refused edit, answer Forbidden"},
		"send":             {life: life{allow: true, fail: map[string]error{"send": errors.New("lost")}}, want: "decide, send, end, closed lost, answer Bad Gateway"},
		"send, bound":      {life: life{allow: true, fail: map[string]error{"send": form}}, want: "decide, send, end, refused form, answer Bad Request"},
		"send, abandoned":  {life: life{allow: true, fail: map[string]error{"send": errAbandoned}}, want: "decide, send, end, closed abandoned, answer Bad Gateway"},
		"dial":             {life: life{allow: true, fail: map[string]error{"send": &Undialed{Err: &dial.Error{Status: 504, Words: "no server"}}}}, want: "decide, send, end, closed no server, answer Gateway Timeout"},
		"dial, bound":      {life: life{allow: true, fail: map[string]error{"send": &Undialed{Err: form}}}, want: "decide, send, end, refused form, answer Bad Request"},
		"dial, bound deaf": {life: life{allow: true, deaf: true, fail: map[string]error{"send": &Undialed{Err: form}}}, want: "decide, send, end, refused form, break off"},
		"edit down":        {life: life{allow: true, fail: map[string]error{"b down": stop}}, edits: []string{"a", "b"}, want: "decide, message, a up, b up, send, b down, end, refused edit, answer Forbidden"},
		"pass":             {life: life{allow: true, fail: map[string]error{"pass": errors.New("lost")}}, want: "decide, send, pass, end, closed lost, break off"},
		"pass, bound":      {life: life{allow: true, fail: map[string]error{"pass": form}}, want: "decide, send, pass, end, refused form, break off"},
		"decide panics":    {life: life{allow: true, panics: "decide"}, want: "decide, refused LOST"},
		"edit panics":      {life: life{allow: true, panics: "a up"}, edits: []string{"a"}, want: "decide, message, a up, closed LOST"},
		"send panics":      {life: life{allow: true, panics: "send"}, want: "decide, send, closed LOST"},
		"pass panics":      {life: life{allow: true, panics: "pass"}, want: "decide, send, pass, closed LOST"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := &tc.life
			for _, name := range tc.edits {
				l.edits = append(l.edits, edit(name, &l))
			}
			memory := budget.New(1<<20, 0, 0)
			e := &stream.Session{Decider: l, Journal: l, Quota: stream.NewQuota(tc.quota, 8192), Memory: memory.Share(),
				Log: slog.New(slog.DiscardHandler)}
			if tc.quota.RequestsPerMinute < 0 {
				e.Quota.Set(quota.Bounds{RequestsPerMinute: 1})
				if err := e.Quota.Begin(); err != nil {
					t.Fatal(err)
				}
				e.Quota.End()
			}
			to, err := authority.Parse("a.test", 443)
			if err != nil {
				t.Fatal(err)
			}
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			s := e.NewStream(near, e.Memory.Lease())
			s.Target = to
			r := &Request{Stream: s, Codec: l, To: to, Via: verdict.ViaDirect, Method: "GET", Path: "/", Once: new(verdict.Once),
				Early: 1 << 10, Late: 1 << 10}
			if l.req = r; tc.full {
				r.Early = 2 << 20
			}
			if tc.held {
				r.Late = 2 << 20
			}
			ctx, cancel := context.WithCancel(t.Context())
			l.cancel = cancel
			defer cancel()
			paniced := func() (is bool) {
				defer func() { is = recover() != nil }()
				r.Serve(ctx, tc.bad)
				return false
			}()
			got := strings.NewReplacer(errLost.Error(), "LOST", budget.ErrFull.Error(), "MEMORY").Replace(strings.Join(l.steps, ", "))
			if tc.quota.RequestsPerMinute < 0 && len(l.steps) > 0 {
				got = strings.Replace(got, strings.TrimPrefix(l.steps[0], "refused "), "QUOTA", 1)
			}
			if got != tc.want {
				t.Errorf("the life is\n%s, not\n%s", got, tc.want)
			}
			if paniced != (l.panics != "") {
				t.Errorf("panic: %v", paniced)
			}
			records := slices.DeleteFunc(slices.Clone(l.steps), func(step string) bool {
				return !strings.HasPrefix(step, "closed ") && !strings.HasPrefix(step, "refused ")
			})
			if byDecider := slices.Contains(l.steps, "decide") && !l.allow; len(records) != 1 && !byDecider || byDecider && len(records) > 0 {
				t.Errorf("%d lines in the record: %q", len(records), records)
			}
			if used := memory.Used(); used != 0 {
				t.Errorf("%d bytes are held for a request that is over", used)
			}
			if under := e.Quota.Usage().UnderWay; under != 0 {
				t.Errorf("%d requests count as under way", under)
			}
			seen := len(l.steps)
			s.Judged.Recheck(t.Context())
			if slices.Contains(l.steps[seen:], "decide") {
				t.Error("Recheck still finds the request")
			}
		})
	}
}
