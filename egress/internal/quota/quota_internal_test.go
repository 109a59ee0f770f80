package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// refused is an Error as its user has it.
type refused struct{ Bound }

type Bound = Error

func (r *refused) Error() string { return r.Reason }

// clocked is a quota whose time the test moves.
func clocked(q Bounds, names int) (*Counter, *time.Duration) {
	now := new(time.Duration)
	out := New(q, names, func(e Error) error { return &refused{e} })
	out.now = func() time.Duration { return *now }
	return out, now
}

func ruleOf(err error) string {
	if form, ok := errors.AsType[*refused](err); ok {
		return form.Rule
	}
	return fmt.Sprint(err)
}

func TestRequestsPerMinute(t *testing.T) {
	q, now := clocked(Bounds{RequestsPerMinute: 10}, 10)
	took := func() (n int) {
		for q.Take() == nil {
			n++
		}
		return n
	}
	if n := took(); n != 10 {
		t.Errorf("%d at once", n)
	}
	*now = 59 * time.Second
	err := q.Take()
	form, ok := errors.AsType[*refused](err)
	if !ok || form.Retry != time.Second || form.Status != 429 || !strings.Contains(strings.Join(form.Hints, ""), "requests_per_minute: 20") {
		t.Errorf("%+v", err)
	}
	*now = 60 * time.Second
	if n := took(); n != 10 {
		t.Errorf("%d a minute later", n)
	}
	*now = 90 * time.Second
	if n := took(); n != 0 {
		t.Errorf("%d half a minute later", n)
	}
	q.bounds.Store(&Bounds{RequestsPerMinute: 12})
	if n := took(); n != 2 {
		t.Errorf("%d after the bound was widened", n)
	}
	q.bounds.Store(&Bounds{})
	for range 1000 {
		if err := q.Take(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRequestsAtOnce(t *testing.T) {
	q, _ := clocked(Bounds{Requests: 2}, 10)
	if err := errors.Join(q.Begin(), q.Begin()); err != nil {
		t.Fatal(err)
	}
	if err := q.Begin(); ruleOf(err) != "limit rate_limit.concurrent_requests" {
		t.Error(err)
	}
	q.End()
	if err := q.Begin(); err != nil {
		t.Error(err)
	}
}

func TestUpload(t *testing.T) {
	q, _ := clocked(Bounds{UploadHost: 100, UploadSession: 150}, 10)
	a, b := q.Host("a"), q.Host("b")
	if err := errors.Join(q.Spend(a, 60), q.Spend(a, 40)); err != nil {
		t.Fatal(err)
	}
	if err := q.Spend(a, 1); ruleOf(err) != "limit upload_limit.host" {
		t.Error(err)
	}
	if got := q.Room(b, 1000); got != 50 {
		t.Errorf("room %d", got)
	}
	if err := q.Spend(b, 51); ruleOf(err) != "limit upload_limit.session" {
		t.Error(err)
	}
	if err := q.Spend(b, 50); err != nil {
		t.Error(err)
	}
	for i := range mostHosts + 10 {
		q.Host(fmt.Sprint(i))
	}
	if len(q.hosts) > mostHosts+1 {
		t.Errorf("%d hosts", len(q.hosts))
	}
}

func TestNames(t *testing.T) {
	q, now := clocked(Bounds{NamesPerMinute: 5}, 20)
	for i := range 5 {
		if err := q.Name(fmt.Sprintf("n%d.wide.test", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Name("n5.wide.test"); ruleOf(err) != "limit rate_limit.names_per_minute" || !strings.Contains(err.Error(), "below wide.test") {
		t.Error(err)
	}
	if err := errors.Join(q.Name("n4.wide.test"), q.Name("a.other.test")); err != nil {
		t.Error("a known name, or one below another parent:", err)
	}
	if err := q.Name("x." + "y.z.wide.test"); err == nil {
		t.Error("a deeper name is not below its last two labels")
	}
	*now = time.Minute
	if err := q.Name("n5.wide.test"); err != nil {
		t.Error(err)
	}
	// Few long names are as much as many short ones.
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60)
	if err := q.Name(long + ".long.test"); err != nil {
		t.Error(err)
	}
	if err := q.Name("c" + long + ".long.test"); err == nil {
		t.Error("240 bytes of names passed")
	}
	*now = time.Hour
	for i := 0; ; i++ {
		*now += time.Minute
		if err := q.Name(fmt.Sprintf("m%d.wide.test", i)); err != nil {
			if ruleOf(err) != "limit names" || len(q.names) != 20 {
				t.Errorf("%d names: %v", len(q.names), err)
			}
			return
		}
	}
}
