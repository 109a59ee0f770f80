package refused_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"

	"cloister/egress/internal/refused"
)

// queue is a kernel that gives what was put in it.
type queue struct {
	messages chan []byte
	seen     []byte // by Wait, and not given yet
	lost     []uint32
}

func (q *queue) Lost() (n uint32, err error) {
	if len(q.lost) > 0 {
		n = q.lost[0]
		q.lost = q.lost[min(1, len(q.lost)-1):]
	}
	return n, nil
}

func (q *queue) Wait(ctx context.Context, until time.Time) error {
	select {
	case q.seen = <-q.messages:
	case <-ctx.Done():
	case <-time.After(time.Until(until)):
	}
	return nil
}

func (q *queue) Next() ([]byte, bool) {
	if m := q.seen; m != nil {
		q.seen = nil
		return m, true
	}
	select {
	case m := <-q.messages:
		return m, true
	default:
		return nil, false
	}
}

// told is the kernel's message of a packet.
func told(tb testing.TB, packet []byte) []byte {
	tb.Helper()
	attrs, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: 10, Data: []byte("\x00")},
		{Type: 9, Data: packet},
		{Type: 12, Data: []byte{0, 0, 0, 1}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	text := binary.NativeEndian.AppendUint32(nil, uint32(20+len(attrs)))
	text = binary.NativeEndian.AppendUint16(text, 4<<8)
	text = append(text, make([]byte, 14)...)
	return append(text, attrs...)
}

func udp4(to string, port uint16) []byte {
	a := netip.MustParseAddr(to).As4()
	head := append([]byte{0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1}, a[:]...)
	return append(head, 0x30, 0x39, byte(port>>8), byte(port), 0, 9, 0, 0, 'x')
}

func udp6(to string, port uint16, extension ...byte) []byte {
	a := netip.MustParseAddr(to).As16()
	head := append([]byte{0x60, 0, 0, 0, 0, 9, 17, 64}, make([]byte, 16)...)
	head = append(head, a[:]...)
	if len(extension) > 0 {
		head[6] = 60
	}
	return append(append(head, extension...), 0x30, 0x39, byte(port>>8), byte(port), 0, 9, 0, 0, 'x')
}

// reports are those of a log that is given messages and then ends.
func reports(t *testing.T, messages [][]byte, lost ...uint32) (out []refused.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{messages: make(chan []byte, len(messages)+1), lost: lost}
		for _, m := range messages {
			q.messages <- m
		}
		l := refused.Log{Report: func(r refused.Report) { out = append(out, r) }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.Serve(ctx, q); err != nil {
			t.Error(err)
		}
	})
	return out
}

func TestDestinations(t *testing.T) {
	long := udp6("2001:db8::1", 443, append([]byte{17, 200}, make([]byte, 6)...)...)
	for name, tt := range map[string]struct {
		packet []byte
		want   string
	}{
		"IPv4":                             {udp4("203.0.113.3", 443), "203.0.113.3:443"},
		"IPv4 with options":                {append(append([]byte{0x46}, udp4("203.0.113.3", 443)[1:20]...), append(make([]byte, 4), udp4("203.0.113.3", 443)[20:]...)...), "203.0.113.3:443"},
		"IPv6":                             {udp6("2001:db8::1", 53000), "[2001:db8::1]:53000"},
		"IPv6 with destination options":    {udp6("2001:db8::1", 53000, 17, 0, 1, 4, 0, 0, 0, 0), "[2001:db8::1]:53000"},
		"a port beyond what was given":     {long, "[2001:db8::1]:0"},
		"a header that says it is shorter": {append([]byte{0x40}, udp4("203.0.113.3", 443)[1:]...), "203.0.113.3:0"},
	} {
		t.Run(name, func(t *testing.T) {
			got := reports(t, [][]byte{told(t, tt.packet)})
			if len(got) != 1 || got[0].To.String() != tt.want || got[0].Further != 0 {
				t.Errorf("%v, want %s", got, tt.want)
			}
		})
	}
}

// A destination is reported at once and then counted; what the kernel lost, and what
// goes beyond the most that are told apart, is counted together.
func TestCounts(t *testing.T) {
	const lost = 1000
	var messages [][]byte
	add := func(to string, port uint16) {
		messages = append(messages, told(t, udp4(to, port)))
	}
	for range 5 {
		add("203.0.113.3", 443)
	}
	for i := range refused.Most + 10 {
		add(fmt.Sprintf("198.51.100.%d", i), 123)
	}
	first, further, rest := 0, uint64(0), uint64(0)
	for _, r := range reports(t, messages, math.MaxUint32-9, lost-10) { // the kernel's counter wraps
		switch {
		case !r.To.IsValid():
			rest += r.Further
		case r.Further == 0:
			first++
		default:
			further += r.Further
		}
	}
	if got, want := [3]uint64{uint64(first), further, rest}, [3]uint64{refused.Most, 4, lost + 11}; got != want {
		t.Errorf("destinations, further ones, the rest: %v, want %v", got, want)
	}
}

// A destination is reported anew in the next period, and what waits is read at the end.
func TestPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out []refused.Report
		q := &queue{messages: make(chan []byte, 4)}
		l := refused.Log{Report: func(r refused.Report) { out = append(out, r) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Serve(ctx, q) }()
		at := netip.MustParseAddrPort("203.0.113.3:443")
		for range 2 {
			q.messages <- told(t, udp4("203.0.113.3", 443))
			synctest.Wait()
			time.Sleep(refused.Period + time.Second) //nolint:forbidigo // the clock of synctest
		}
		q.messages <- told(t, udp4("203.0.113.3", 443))
		q.messages <- told(t, udp4("203.0.113.3", 443))
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []refused.Report{{To: at}, {To: at}, {To: at}, {To: at, Further: 1}}
		if diff := cmp.Diff(want, out, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBrokenSource(t *testing.T) {
	want := errors.New("broken")
	l := refused.Log{Report: func(refused.Report) {}}
	if err := l.Serve(t.Context(), broken{want}); !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

type broken struct{ error }

func (b broken) Wait(context.Context, time.Time) error { return b.error }
func (b broken) Next() ([]byte, bool)                  { return nil, false }

// FuzzPacket gives packets as a payload can make them.
func FuzzPacket(f *testing.F) {
	f.Add(udp4("203.0.113.3", 443))
	f.Add(udp6("2001:db8::1", 443, 17, 255, 0, 0, 0, 0, 0, 0))
	f.Add([]byte{0x4f})
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) > 60_000 {
			return
		}
		n := 0
		l := refused.Log{Report: func(r refused.Report) { n++ }}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q := &queue{messages: make(chan []byte, 2)}
		q.messages <- told(t, packet)
		q.messages <- packet // as a message by itself
		if err := l.Serve(ctx, q); err != nil {
			t.Error(err)
		}
		if n > 2 {
			t.Errorf("%d reports of two messages", n)
		}
	})
}

func (b broken) Lost() (uint32, error) { return 0, nil }
