package approval_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"cloister/approval"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a queue with what it told.
type world struct {
	*approval.Queue
	mu      sync.Mutex
	told    []string
	opened  error // of the next questions
	decided error // of the next answers
}

func newWorld(change func(*approval.Options)) *world {
	w := &world{}
	tell := func(format string, args ...any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, fmt.Sprintf(format, args...))
	}
	o := approval.Options{
		Timeout: func() time.Duration { return time.Minute },
		Opened: func(_ context.Context, i approval.Item) error {
			tell("opened %s", i.Subject)
			return w.opened
		},
		Decide: func(_ context.Context, i approval.Item, r approval.Reply) error {
			tell("decided %s %t %s", i.Subject, r.Allow, r.Scope)
			return w.decided
		},
		Ended:   func(i approval.Item) { tell("ended %s %s", i.Subject, i.Outcome) },
		Changed: func(i approval.Item) { tell("changed %s %s", i.Subject, i.Outcome) },
	}
	if change != nil {
		change(&o)
	}
	w.Queue = approval.New(o)
	return w
}

func (w *world) story() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

func ask(session, subject string) *approval.Ask {
	return &approval.Ask{SessionID: session, Session: session, Kind: approval.Network, Subject: subject}
}

// begin asks in a goroutine of its own.
func (w *world) begin(ctx context.Context, a *approval.Ask) <-chan approval.Answer {
	out := make(chan approval.Answer, 1)
	go func() { out <- w.Ask(ctx, a) }()
	return out
}

func allow(scope approval.Scope) approval.Reply {
	return approval.Reply{Allow: true, Scope: scope, By: "me"}
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		defer w.Watch("")()
		first, second := w.begin(t.Context(), ask("s", "a:443")), w.begin(t.Context(), ask("s", "a:443"))
		other := w.begin(t.Context(), ask("t", "a:443"))
		synctest.Wait()
		list := w.Pending()
		if len(list) != 2 || list[0].Waiting+list[1].Waiting != 3 {
			t.Fatalf("pending: %+v", list)
		}
		var id string
		for _, i := range list {
			if i.SessionID == "s" {
				id = i.ID
			}
		}
		done, err := w.Answer(t.Context(), id, allow(approval.Session))
		if err != nil || done.Outcome != approval.Allowed {
			t.Fatalf("%+v, %v", done, err)
		}
		for _, c := range []<-chan approval.Answer{first, second} {
			if a := <-c; !a.Allowed() || a.ID != id || a.Reply.By != "me" {
				t.Errorf("answer %+v", a)
			}
		}
		select {
		case a := <-other:
			t.Errorf("another session got %+v", a)
		default:
		}
		var over *approval.Over
		if _, err := w.Answer(t.Context(), id, approval.Reply{Scope: approval.Once}); !errors.As(err, &over) || over.Item.Reply.By != "me" {
			t.Errorf("a second answer: %v", err)
		}
		// An answer is no leave for those who come later.
		third := w.begin(t.Context(), ask("s", "a:443"))
		synctest.Wait()
		select {
		case a := <-third:
			t.Errorf("a later ask got %+v", a)
		default:
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		for _, c := range []<-chan approval.Answer{other, third} {
			if a := <-c; a.Outcome != approval.Expired {
				t.Errorf("in the end %+v", a)
			}
		}
		if _, err := w.Answer(t.Context(), "ffffffff", allow(approval.Once)); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("an unknown ID: %v", err)
		}
	})
}

// RS-15: exact.
func TestTimeIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		defer w.Watch("")()
		began := time.Now()
		a := w.Ask(t.Context(), ask("s", "a:443"))
		if a.Outcome != approval.Expired || time.Since(began) != time.Minute {
			t.Errorf("%+v after %s", a, time.Since(began))
		}
		if _, err := w.Answer(t.Context(), a.ID, allow(approval.Once)); err == nil {
			t.Error("an answer after the end counted")
		}
	})
}

// RS-16: the machine sleeps for 30 s while a question has 20 s left. Timers stood
// still meanwhile; nobody's answer counts any more, and one that is in time does.
func TestMachineSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, slept := time.Now(), time.Duration(0)
		w := newWorld(func(o *approval.Options) {
			o.Awake = func() time.Duration { return time.Since(began) + slept }
		})
		defer w.Watch("")()
		late, held := w.begin(t.Context(), ask("s", "late:443")), w.begin(t.Context(), ask("s", "held:443"))
		time.Sleep(40 * time.Second) //nolint:forbidigo // the bubble's clock
		fresh := w.begin(t.Context(), ask("s", "fresh:443"))
		synctest.Wait()
		ids := map[string]string{}
		for _, i := range w.Pending() {
			ids[i.Subject] = i.ID
		}
		slept = 30 * time.Second
		var over *approval.Over
		if _, err := w.Answer(t.Context(), ids["late:443"], allow(approval.Once)); !errors.As(err, &over) || over.Item.Outcome != approval.Expired {
			t.Errorf("an answer after its time: %v", err)
		}
		if a := <-late; a.Outcome != approval.Expired {
			t.Errorf("who waited got %+v", a)
		}
		if _, err := w.Answer(t.Context(), ids["fresh:443"], allow(approval.Once)); err != nil {
			t.Errorf("one that had 60 s: %v", err)
		}
		if a := <-fresh; !a.Allowed() {
			t.Errorf("who asked lately got %+v", a)
		}
		// A look at the list ends the other one: nobody is shown what is over.
		w.Pending()
		synctest.Wait()
		if a := <-held; a.Outcome != approval.Expired {
			t.Errorf("the other got %+v", a)
		}
		if len(w.Pending()) != 0 {
			t.Error("it is listed still")
		}
	})
}

func TestNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		if a := w.Ask(t.Context(), ask("s", "a:443")); a.Outcome != approval.Unwatched || len(w.story()) != 0 {
			t.Errorf("%+v, %v", a, w.story())
		}
		leave := w.Watch("other")
		if a := w.Ask(t.Context(), ask("s", "a:443")); a.Outcome != approval.Unwatched {
			t.Errorf("who watches another session answered: %+v", a)
		}
		leave()
		leave = w.Watch("s")
		held := w.begin(t.Context(), ask("s", "a:443"))
		synctest.Wait()
		leave()
		if a := w.Ask(t.Context(), ask("s", "b:443")); a.Outcome != approval.Unwatched {
			t.Errorf("after the watcher left: %+v", a)
		}
		if a := <-held; a.Outcome != approval.Expired {
			t.Errorf("%+v", a)
		}
	})
}

// HX-19: a flood is bounded for each session, and reaches nobody else.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(func(o *approval.Options) { o.PerSession, o.Rate = 3, 5 })
		defer w.Watch("")()
		ctx, stop := context.WithCancel(t.Context())
		var held []<-chan approval.Answer
		for i := range 3 {
			held = append(held, w.begin(ctx, ask("s", fmt.Sprint(i))))
		}
		synctest.Wait()
		if a := w.Ask(ctx, ask("s", "one too many")); a.Outcome != approval.Overflow {
			t.Errorf("%+v", a)
		}
		quiet := w.begin(ctx, ask("t", "a"))
		synctest.Wait()
		if len(w.Pending()) != 4 {
			t.Errorf("%d pending", len(w.Pending()))
		}
		stop()
		for _, c := range append(held, quiet) {
			if a := <-c; a.Outcome != approval.Withdrawn {
				t.Errorf("%+v", a)
			}
		}
		if n := len(w.Pending()); n != 0 {
			t.Errorf("%d pending after their askers left", n)
		}
		// The rate counts what was withdrawn too.
		ctx, stop = context.WithCancel(t.Context())
		defer stop()
		for i := range 2 {
			w.begin(ctx, ask("s", fmt.Sprint("again", i)))
		}
		synctest.Wait()
		if a := w.Ask(ctx, ask("s", "too soon")); a.Outcome != approval.Overflow {
			t.Errorf("%+v", a)
		}
	})
}

func TestUnrecordedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		defer w.Watch("")()
		w.opened = errors.New("disk full")
		if a := w.Ask(t.Context(), ask("s", "a")); a.Outcome != approval.Unrecorded || a.Err == nil {
			t.Errorf("%+v", a)
		}
		w.opened = nil
		held := w.begin(t.Context(), ask("s", "a"))
		synctest.Wait()
		w.decided = errors.New("disk full")
		id := w.Pending()[0].ID
		if _, err := w.Answer(t.Context(), id, allow(approval.Global)); err == nil {
			t.Error("an answer that could not be recorded counted")
		}
		select {
		case a := <-held:
			t.Errorf("it went on: %+v", a)
		default:
		}
		w.decided = nil
		if _, err := w.Answer(t.Context(), id, approval.Reply{Scope: approval.Once}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if a := <-held; a.Outcome != approval.Denied {
			t.Errorf("%+v", a)
		}
	})
}

// HX-11: many answers at once, one counts, also at the last moment.
func TestOneAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(func(o *approval.Options) {
			o.Decide = func(context.Context, approval.Item, approval.Reply) error {
				time.Sleep(2 * time.Second) //nolint:forbidigo // a slow disk, by the bubble's clock
				return nil
			}
		})
		defer w.Watch("")()
		held := w.begin(t.Context(), ask("s", "a"))
		synctest.Wait()
		id := w.Pending()[0].ID
		time.Sleep(time.Minute - time.Second) //nolint:forbidigo // the bubble's clock
		var wg sync.WaitGroup
		var mu sync.Mutex
		counted := 0
		for range 50 {
			wg.Go(func() {
				if _, err := w.Answer(t.Context(), id, allow(approval.Once)); err == nil {
					mu.Lock()
					counted++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if a := <-held; counted != 1 || !a.Allowed() {
			t.Errorf("%d answers counted, %+v", counted, a)
		}
	})
}

func TestReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		defer w.Watch("")()
		a, b := w.begin(t.Context(), ask("s", "a")), w.begin(t.Context(), ask("s", "b"))
		synctest.Wait()
		w.Review(func(i approval.Item) bool { return i.Subject == "a" })
		if got := <-a; got.Outcome != approval.Superseded {
			t.Errorf("%+v", got)
		}
		if got := <-b; got.Outcome != approval.Expired {
			t.Errorf("%+v", got)
		}
	})
}

func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		defer w.Watch("")()
		held := w.begin(t.Context(), ask("s", "a"))
		synctest.Wait()
		id := w.Pending()[0].ID
		if i, err := w.Find(id[:3]); err != nil || i.ID != id {
			t.Errorf("%+v, %v", i, err)
		}
		if _, err := w.Find(""); err == nil {
			t.Error("no ID found something")
		}
		<-held
		if i, err := w.Find(id); err != nil || i.Outcome != approval.Expired {
			t.Errorf("%+v, %v", i, err)
		}
		if _, err := w.Find(id[:3]); err == nil {
			t.Error("the beginning of an old ID found something")
		}
	})
}

// RS-15: 10,000 pending questions stay bounded in memory, and the one more is refused.
func TestMemoryOfManyQuestions(t *testing.T) {
	const many, most = 10_000, 4 << 10
	w := newWorld(func(o *approval.Options) {
		o.Changed = func(approval.Item) {}
		o.Opened = func(context.Context, approval.Item) error { return nil }
		o.Ended = func(approval.Item) {}
		o.PerSession, o.Rate = 100, 100
	})
	defer w.Watch("")()
	ctx, stop := context.WithCancel(t.Context())
	inUse := func() (heap, stack uint64) {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse, m.StackInuse
	}
	heap, stack := inUse()
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() { w.Ask(ctx, ask(fmt.Sprint("s", i/100), fmt.Sprintf("host-%d.example.com:443", i))) })
	}
	for len(w.Pending()) < many {
		runtime.Gosched()
	}
	heapNow, stackNow := inUse()
	each := (heapNow - heap) / many
	t.Logf("%d bytes each, and a goroutine that waits, whose stack has %d", each, (stackNow-stack)/many)
	if each > most {
		t.Errorf("%d bytes each, want at most %d", each, most)
	}
	if a := w.Ask(ctx, ask("another", "a")); a.Outcome != approval.Overflow {
		t.Errorf("one more: %+v", a)
	}
	stop()
	wg.Wait()
	if n := len(w.Pending()); n != 0 {
		t.Errorf("%d are left", n)
	}
}
