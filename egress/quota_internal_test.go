package egress

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// clocked is a quota whose time the test moves.
func clocked(q Quota, names int) (*quota, *time.Duration) {
	now := new(time.Duration)
	out := newQuota(q, names)
	out.now = func() time.Duration { return *now }
	return out, now
}

func ruleOf(err error) string {
	if form, ok := errors.AsType[*formError](err); ok {
		return form.rule
	}
	return fmt.Sprint(err)
}

func TestRequestsPerMinute(t *testing.T) {
	q, now := clocked(Quota{RequestsPerMinute: 10}, 10)
	took := func() (n int) {
		for q.take() == nil {
			n++
		}
		return n
	}
	if n := took(); n != 10 {
		t.Errorf("%d at once", n)
	}
	*now = 59 * time.Second
	err := q.take()
	form, ok := errors.AsType[*formError](err)
	if !ok || form.retry != time.Second || form.status != 429 || !strings.Contains(strings.Join(form.hints, ""), "requests_per_minute: 20") {
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
	q.bounds.Store(&Quota{RequestsPerMinute: 12})
	if n := took(); n != 2 {
		t.Errorf("%d after the bound was widened", n)
	}
	q.bounds.Store(&Quota{})
	for range 1000 {
		if err := q.take(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRequestsAtOnce(t *testing.T) {
	q, _ := clocked(Quota{Requests: 2}, 10)
	if err := errors.Join(q.begin(), q.begin()); err != nil {
		t.Fatal(err)
	}
	if err := q.begin(); ruleOf(err) != "limit rate_limit.concurrent_requests" {
		t.Error(err)
	}
	q.end()
	if err := q.begin(); err != nil {
		t.Error(err)
	}
}

func TestUpload(t *testing.T) {
	q, _ := clocked(Quota{UploadHost: 100, UploadSession: 150}, 10)
	a, b := q.host("a"), q.host("b")
	if err := errors.Join(q.spend(a, 60), q.spend(a, 40)); err != nil {
		t.Fatal(err)
	}
	if err := q.spend(a, 1); ruleOf(err) != "limit upload_limit.host" {
		t.Error(err)
	}
	if got := q.room(b, 1000); got != 50 {
		t.Errorf("room %d", got)
	}
	if err := q.spend(b, 51); ruleOf(err) != "limit upload_limit.session" {
		t.Error(err)
	}
	if err := q.spend(b, 50); err != nil {
		t.Error(err)
	}
	for i := range mostHosts + 10 {
		q.host(fmt.Sprint(i))
	}
	if len(q.hosts) > mostHosts+1 {
		t.Errorf("%d hosts", len(q.hosts))
	}
}

func TestNames(t *testing.T) {
	q, now := clocked(Quota{NamesPerMinute: 5}, 20)
	for i := range 5 {
		if err := q.name(fmt.Sprintf("n%d.wide.test", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.name("n5.wide.test"); ruleOf(err) != "limit rate_limit.names_per_minute" || !strings.Contains(err.Error(), "below wide.test") {
		t.Error(err)
	}
	if err := errors.Join(q.name("n4.wide.test"), q.name("a.other.test")); err != nil {
		t.Error("a known name, or one below another parent:", err)
	}
	if err := q.name("x." + "y.z.wide.test"); err == nil {
		t.Error("a deeper name is not below its last two labels")
	}
	*now = time.Minute
	if err := q.name("n5.wide.test"); err != nil {
		t.Error(err)
	}
	// Few long names are as much as many short ones.
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60)
	if err := q.name(long + ".long.test"); err != nil {
		t.Error(err)
	}
	if err := q.name("c" + long + ".long.test"); err == nil {
		t.Error("240 bytes of names passed")
	}
	*now = time.Hour
	for i := 0; ; i++ {
		*now += time.Minute
		if err := q.name(fmt.Sprintf("m%d.wide.test", i)); err != nil {
			if ruleOf(err) != "limit names" || len(q.names) != 20 {
				t.Errorf("%d names: %v", len(q.names), err)
			}
			return
		}
	}
}
