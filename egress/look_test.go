package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloister/egress"
	"cloister/egress/verdict"
	"cloister/internal/budget"
	"cloister/internal/reading"
)

// looking is a world whose decider looks at bodies, as it does for a person.
type looking struct {
	*inspected
	budget *budget.Budget
	seen   chan seen
}

type seen struct {
	reading.Beginning
	err error
	no  bool // there is nothing to look at
}

// newLooking has a server that answers what it got.
func newLooking(t *testing.T) *looking {
	ca := newTestCA(t)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		fmt.Fprintf(w, "%s %d %x expect=%q end=%q length=%d", r.Method, len(body), sha256.Sum256(body), r.Header.Get("Expect"),
			r.Trailer.Get("X-End"), r.ContentLength)
	}), "h2", "http/1.1")
	w := &looking{seen: make(chan seen, 8), budget: budget.New(8<<20, 0, time.Second)}
	w.inspected = newInspectedBy(t, ca, addr, func(c *egress.Config) { c.Memory = w.budget.Share() })
	decided := func(_ context.Context, q verdict.Query) {
		if q.Kind != verdict.Request {
			return
		}
		if q.HTTP.Look == nil {
			w.seen <- seen{no: true}
			return
		}
		b, err := q.HTTP.Look()
		if again, _ := q.HTTP.Look(); err == nil && (again.Sum != b.Sum || again.Size != b.Size) {
			t.Error("a second look sees another body")
		}
		w.seen <- seen{Beginning: b, err: err}
	}
	w.mu.Lock() // it serves already
	w.decided = decided
	w.mu.Unlock()
	return w
}

func (w *looking) looked() seen {
	w.t.Helper()
	select {
	case s := <-w.seen:
		return s
	case <-time.After(patience):
		w.t.Fatal("nobody was asked")
		return seen{}
	}
}

// released waits until nothing is held any more.
func (w *looking) released(client *http.Client) {
	w.t.Helper()
	for end := time.Now().Add(patience); w.budget.Used() != 0; {
		client.CloseIdleConnections() // one may be idle only a moment after its answer was read
		if time.Now().After(end) {
			w.t.Fatalf("%d are held at the end", w.budget.Used())
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // no event announces it
	}
}

// A person sees size and digest of the body, and the server gets those bytes.
func TestLook(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	for proto, pick := range map[string]func(*inspected) *http.Client{
		"HTTP/1": (*inspected).client, "HTTP/2": (*inspected).client2,
	} {
		w := newLooking(t)
		client := pick(w.inspected)
		client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
		for _, tc := range []struct {
			name, method string
			size         int
			chunked      bool
			expect, ends bool
			no, whole    bool
		}{
			{name: "GET", method: "GET", no: true},
			{name: "HEAD", method: "HEAD", no: true},
			{name: "POST without body", method: "POST", no: true},
			{name: "short", method: "POST", size: 5, whole: true},
			{name: "GET with a body", method: "GET", size: 5, whole: true},
			{name: "chunked", method: "POST", size: 9000, chunked: true, whole: true},
			{name: "chunked and empty", method: "POST", chunked: true, whole: true},
			{name: "expect", method: "PUT", size: 700, expect: true, whole: true},
			{name: "expect, chunked", method: "PUT", size: 700, expect: true, chunked: true, whole: true},
			{name: "trailers", method: "POST", size: 30000, chunked: true, ends: true, whole: true},
			{name: "as much as is looked at", method: "POST", size: most, whole: true},
			{name: "as much, chunked", method: "POST", size: most, chunked: true, whole: true},
			{name: "one more", method: "POST", size: most + 1},
			{name: "one more, chunked", method: "POST", size: most + 1, chunked: true, ends: true},
			{name: "much", method: "POST", size: 3 << 20},
			{name: "much, chunked", method: "POST", size: 3 << 20, chunked: true},
		} {
			t.Run(proto+"/"+tc.name, func(t *testing.T) {
				body := bytes.Repeat([]byte("0123456789abcde\n"), tc.size/16+1)[:tc.size]
				var from io.Reader = bytes.NewReader(body)
				if tc.chunked {
					from = io.MultiReader(from) // of an unknown length
				} else if tc.size == 0 {
					from = nil
				}
				req, err := http.NewRequestWithContext(t.Context(), tc.method, "https://api.test/x", from)
				if err != nil {
					t.Fatal(err)
				}
				if tc.expect {
					req.Header.Set("Expect", "100-continue")
				}
				end := ""
				if tc.ends {
					end = "x"
					req.Trailer = http.Header{"X-End": {end}}
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				declared := int64(tc.size)
				if tc.chunked {
					declared = -1
				}
				if tc.method != "HEAD" {
					want := fmt.Sprintf("%s %d %x expect=%q end=%q length=%d", tc.method, tc.size, sha256.Sum256(body), "", end, declared)
					if string(got) != want {
						t.Errorf("the server answers %q, want %q", got, want)
					}
				}
				s := w.looked()
				if s.no != tc.no || s.err != nil {
					t.Fatalf("looked: %+v", s)
				}
				if tc.no {
					return
				}
				part := min(tc.size, most)
				if s.Size != int64(part) || s.Sum != sha256.Sum256(body[:part]) || s.Whole != tc.whole || s.Late || s.Declared != declared {
					t.Errorf("looked: %+v", s.Beginning)
				}
				if want := tc.ends && tc.whole; (len(s.Trailer) == 1) != want || want && s.Trailer[0] != [2]string{"X-End", "x"} {
					t.Errorf("trailers: %q", s.Trailer)
				}
			})
		}
		w.released(client)
	}
}

// A body that does not come in time delays no question, and what comes later follows what was
// seen.
func TestLookLate(t *testing.T) {
	t.Parallel()
	for proto, pick := range map[string]func(*inspected) *http.Client{
		"HTTP/1": (*inspected).client, "HTTP/2": (*inspected).client2,
	} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			w := newLooking(t)
			from, to := io.Pipe()
			sent := make(chan error, 1)
			go func() {
				_, err := io.WriteString(to, "the beginning")
				sent <- err
			}()
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/x", from)
			req.Trailer = http.Header{"X-End": {"late"}}
			client := pick(w.inspected)
			type answer struct {
				text string
				err  error
			}
			answers := make(chan answer, 1)
			go func() {
				resp, err := client.Do(req)
				if err != nil {
					answers <- answer{err: err}
					return
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				answers <- answer{string(got), err}
			}()
			s := w.looked()
			if s.err != nil || s.Whole || !s.Late || s.Size != 13 || s.Sum != sha256.Sum256([]byte("the beginning")) || s.Trailer != nil {
				t.Errorf("looked: %+v", s)
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
			rest := strings.Repeat(", the rest", 20000)
			if _, err := io.WriteString(to, rest); err != nil {
				t.Error(err)
			}
			_ = to.Close()
			want := fmt.Sprintf("POST %d %x expect=%q end=%q length=-1", 13+len(rest), sha256.Sum256([]byte("the beginning"+rest)), "", "late")
			if got := <-answers; got.err != nil || got.text != want {
				t.Errorf("%q, %v, want %q", got.text, got.err, want)
			}
			w.released(client)
		})
	}
}

// What cannot be looked at is an error, which has the request refused.
func TestLookBroken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ sent, says string }{
		"ends early":          {"POST /x HTTP/1.1\r\nHost: api.test\r\nContent-Length: 9\r\n\r\nhalf", "the program closed the connection"},
		"ends within a chunk": {"POST /x HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", "the program closed the connection"},
		"no chunk":            {"POST /x HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n", "cannot be read"},
		"longer than a chunk": {"POST /x HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour!\r\n0\r\n\r\n", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLooking(t)
			c := w.open("http/1.1")
			write(t, c, tc.sent)
			_ = c.CloseWrite()
			if s := w.looked(); s.err == nil || !strings.Contains(s.err.Error(), tc.says) {
				t.Errorf("looked: %+v", s)
			}
		})
	}
	t.Run("a stream that is reset", func(t *testing.T) {
		t.Parallel()
		w := newLooking(t)
		from, to := io.Pipe()
		go func() {
			_, _ = io.WriteString(to, "half")
			_ = to.CloseWithError(io.ErrUnexpectedEOF)
		}()
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/x", from)
		client := w.client2()
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			t.Error("half a request has an answer")
		}
		if s := w.looked(); s.err == nil {
			t.Errorf("looked: %+v", s)
		}
		w.released(client)
	})
}

// What stands behind a body in the same bytes is the next request, as without a look; and
// bytes of framing count as well.
func TestLookFraming(t *testing.T) {
	t.Parallel()
	w := newLooking(t)
	c := w.open("http/1.1")
	one := "POST /x HTTP/1.1\r\nHost: api.test\r\n"
	write(t, c, one+"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"+one+"Content-Length: 3\r\n\r\ntwo"+
		one+"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"+strings.Repeat("1;"+strings.Repeat("x", 30)+"\r\na\r\n", 9000)+
		"0\r\nContent-Length: 7\r\nX-End: z\r\n\r\n"+one+"Connection: close\r\nContent-Length: 4\r\n\r\nlast")
	got, _ := readAll(t, c)
	all := strings.Repeat("a", 9000)
	for n, want := range []struct {
		text  string
		whole bool
	}{{"one", true}, {"two", true}, {all, false}, {"last", true}} {
		s := w.looked()
		if s.err != nil || s.Whole != want.whole || s.Late || s.Sum != sha256.Sum256([]byte(want.text[:s.Size])) || want.whole && s.Size != int64(len(want.text)) {
			t.Errorf("request %d: %+v", n, s)
		}
		if !strings.Contains(got, fmt.Sprintf("POST %d %x", len(want.text), sha256.Sum256([]byte(want.text)))) {
			t.Errorf("the server did not get %.20q: %s", want.text, got)
		}
	}
	if n := strings.Count(got, "HTTP/1.1 100"); n != 1 {
		t.Errorf("%d interim answers: %s", n, got)
	}
}

// refuseRequests allows connections, and answers what is asked on them by v.
func (w *looking) refuseRequests(v verdict.Answer) {
	w.set(readHost, read())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judged = func(q verdict.Query) (verdict.Answer, bool) { return v, q.Kind == verdict.Request }
}

// A request that is refused after a look has its answer, and nothing went up.
func TestLookRefused(t *testing.T) {
	t.Parallel()
	for proto, pick := range map[string]func(*inspected) *http.Client{
		"HTTP/1": (*inspected).client, "HTTP/2": (*inspected).client2,
	} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			w := newLooking(t)
			client := pick(w.inspected)
			v := read()
			v.Allow = false
			for _, size := range []int{10, 200 << 10} {
				w.refuseRequests(v)
				req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/x", bytes.NewReader(make([]byte, size)))
				req.Header.Set("Expect", "100-continue")
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
				resp.Body.Close()
				if resp.StatusCode != http.StatusForbidden {
					t.Errorf("status %d", resp.StatusCode)
				}
				if s := w.looked(); s.err != nil || s.Size != int64(min(size, 64<<10)) {
					t.Errorf("looked: %+v", s)
				}
			}
			w.released(client)
		})
	}
}
