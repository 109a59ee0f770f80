package budget

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func TestShares(t *testing.T) {
	b := New(100, 0, time.Millisecond)
	one, two := b.Share(), b.Share()
	if err := errors.Join(one.Take(50), two.Take(25)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(one.Take(1), ErrFull) || !errors.Is(two.Take(1), ErrFull) {
		t.Error("a session takes more than half of what the others leave")
	}
	one.Give(50)
	if err := two.Take(25); err != nil {
		t.Error(err)
	}
	two.Give(50)
	var none *Share
	if none.Take(1<<40) != nil || b.Used() != 0 {
		t.Errorf("%d used", b.Used())
	}
}

// endless is a server of HTTP/2 that sends without end, on each stream.
func endless(c net.Conn) {
	(&http2.Server{}).ServeConn(c, &http2.ServeConnOpts{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		buf := make([]byte, 16<<10)
		for {
			if _, err := w.Write(buf); err != nil {
				return
			}
		}
	})})
}

// What nobody reads counts, what is read does not, and what has no room breaks off.
func TestUnreadDataCounts(t *testing.T) {
	for name, c := range map[string]struct {
		most  int64
		fails bool
	}{"room": {64 << 20, false}, "none": {1 << 20, true}} {
		b := New(c.most, 0, 50*time.Millisecond)
		near, far := net.Pipe()
		go endless(far)
		share := b.Share()
		one := &http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerConnection: 2 << 20, MaxReceiveBufferPerStream: 256 << 10}}
		transport, err := http2.ConfigureTransports(one)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := transport.NewClientConn(share.Conn(near, Client))
		if err != nil {
			t.Fatal(err)
		}
		var bodies []io.ReadCloser
		for range 8 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
			resp, err := conn.RoundTrip(req)
			if err != nil {
				break
			}
			bodies = append(bodies, resp.Body)
		}
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && b.Used() < 2<<20 && !conn.State().Closed; {
			time.Sleep(time.Millisecond) //nolint:forbidigo // nothing else tells
		}
		if conn.State().Closed != c.fails {
			t.Errorf("%s: closed %t, %d held", name, !c.fails, b.Used())
		}
		if !c.fails {
			if used := b.Used(); used < 1<<20 || used > 3<<20 {
				t.Errorf("eight streams that nobody reads hold %d", used)
			}
			_, _ = io.CopyN(io.Discard, bodies[0], 8<<20) // goes on as long as it is read
			for _, body := range bodies {
				_ = body.Close()
			}
		}
		_ = conn.Close()
		_, _ = near.Close(), far.Close()
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && b.Used() != 0; {
			time.Sleep(time.Millisecond) //nolint:forbidigo // nothing else tells
		}
		if b.Used() != 0 {
			t.Errorf("%s: %d are held at the end", name, b.Used())
		}
	}
}

// Sessions that take what they can leave one large thing to two others, which hold little.
func TestLeavesOneLargeThing(t *testing.T) {
	const large = 17 << 20
	b := New(88<<20, 2*large, time.Millisecond)
	for range 8 {
		for s := b.Share(); s.Take(1<<20) == nil; {
		}
	}
	for n := range 3 {
		s := b.Share()
		if err := s.Take(large); (err == nil) != (n < 2) {
			t.Errorf("session %d besides them: %v", n+1, err)
		}
		if s.Take(large) == nil {
			t.Errorf("session %d besides them has two", n+1)
		}
	}
	if used := b.Used(); used > (88<<20)+2*large {
		t.Errorf("%d are held", used)
	}
}

// A head that has no end counts until it has.
func TestUnfinishedHeadCounts(t *testing.T) {
	b := New(16<<20, 0, time.Millisecond)
	near, far := net.Pipe()
	c := b.Share().Conn(near, Server)
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		read <- err
	}()
	_, _ = far.Write([]byte(http2.ClientPreface))
	w := http2.NewFramer(far, far)
	piece := make([]byte, 16<<10)
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: piece, EndHeaders: true})
	_ = w.WritePing(false, [8]byte{}) // what came before was read
	if used := b.Used(); used != 0 {
		t.Errorf("a whole head holds %d", used)
	}
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: piece})
	for range 3 {
		_ = w.WriteContinuation(3, false, piece)
	}
	_ = w.WriteContinuation(3, false, nil)
	if used := b.Used(); used < 64<<10 || used > 128<<10 {
		t.Errorf("64 KiB of a head hold %d", used)
	}
	_ = w.WriteContinuation(3, true, nil)
	_, _ = far.Close(), near.Close()
	<-read
	_ = c.Close()
	if used := b.Used(); used != 0 {
		t.Errorf("%d are held at the end", used)
	}
}

func TestLease(t *testing.T) {
	b := New(100, 0, time.Millisecond)
	l := b.Share().Lease()
	if err := errors.Join(l.Take(20), l.Take(20)); err != nil || b.Used() != 40 {
		t.Errorf("%v, %d held", err, b.Used())
	}
	if !errors.Is(l.Take(30), ErrFull) {
		t.Error("it takes more than its session may")
	}
	l.Give(10)
	if l.End(); b.Used() != 0 {
		t.Errorf("%d held at the end", b.Used())
	}
	var none *Lease
	if none.Take(1) != nil {
		t.Error("no lease has a bound")
	}
	none.Give(1)
}

// A server may take frames of any size: it is sent small ones, since who writes one holds
// as much.
func TestServersGetSmallFrames(t *testing.T) {
	for name, whole := range map[string]bool{"at once": true, "byte by byte": false} {
		near, far := net.Pipe()
		c := New(1<<20, 0, time.Millisecond).Share().Conn(near, Client)
		go func() {
			var text bytes.Buffer
			w := http2.NewFramer(&text, nil)
			_ = w.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 5<<24 | 5}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20},
				http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
			_ = w.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1<<24 - 1})
			for p := text.Bytes(); len(p) > 0 && !whole; p = p[1:] {
				_, _ = far.Write(p[:1])
			}
			if whole {
				_, _ = far.Write(text.Bytes())
			}
		}()
		r := http2.NewFramer(nil, c)
		got := map[http2.SettingID]uint32{}
		for range 2 {
			f, err := r.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			_ = f.(*http2.SettingsFrame).ForeachSetting(func(s http2.Setting) error { got[s.ID] = s.Val; return nil })
			if got[http2.SettingMaxFrameSize] != MostFrame || got[http2.SettingInitialWindowSize] != 1<<20 || got[http2.SettingMaxConcurrentStreams] != 5<<24|5 {
				t.Errorf("%s: %v", name, got)
			}
		}
		_, _ = near.Close(), far.Close()
	}
}

// gone is a connection whose peer has ended it.
type gone struct{ net.Conn }

func (gone) Ended() bool { return true }

// A connection whose data nobody reads breaks off in time although it gets some memory now
// and then, and at once where its peer has ended.
func TestWaitsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		ended bool
		after time.Duration
	}{"waits": {false, 10 * time.Second}, "ended": {true, look}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(64*step, 0, 10*time.Second)
				other, share := b.Share(), b.Share()
				if err := other.Take(32 * step); err != nil {
					t.Fatal(err)
				}
				for share.Take(step) == nil {
				}
				near, far := net.Pipe()
				conn := share.Conn(near, Client)
				if c.ended {
					conn = share.Conn(gone{near}, Server)
				}
				begin := time.Now()
				go func() {
					if c.ended {
						_, _ = far.Write([]byte(http2.ClientPreface))
					}
					w := http2.NewFramer(far, far)
					for w.WriteData(1, false, make([]byte, 16<<10)) == nil {
					}
				}()
				go func() {
					time.Sleep(8 * time.Second) //nolint:forbidigo // of the bubble's clock
					other.Give(16 * step)
					time.Sleep(time.Second) //nolint:forbidigo // as above
					other.Take(16 * step)
				}()
				if _, err := io.Copy(io.Discard, conn); !errors.Is(err, ErrFull) {
					t.Error(err)
				}
				if took := time.Since(begin); took > c.after+time.Second {
					t.Errorf("it broke off after %v", took)
				}
				_ = far.Close()
				time.Sleep(10 * time.Second) //nolint:forbidigo // as above
			})
		})
	}
}
