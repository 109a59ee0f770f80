package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/egress/verdict"
)

// edited is the verdict on requests that are changed.
func edited(edits ...verdict.Edit) verdict.Answer {
	v := read()
	v.Edits = edits
	return v
}

// editServer tells what it got, and answers as it is asked to.
func editServer(t testing.TB, ca *testCA) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("X-Leak", "s3cret")
		w.Header().Set("Trailer", "X-End")
		if r.Header.Get("Accept") == "counted" {
			w.Header().Del("Trailer")
		}
		text := fmt.Sprintf("%s %s %s|%s|%d", r.Method, r.RequestURI, strings.Join(r.Header["X-Key"], ","), got, r.ContentLength)
		if r.Header.Get("Accept") == "counted" {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		}
		_, _ = io.WriteString(w, text)
		if r.Header.Get("Accept") != "counted" {
			_ = http.NewResponseController(w).Flush()
			w.Header().Set("X-End", "s3cret")
		}
	})
	return tlsServer(t, ca.leaf(nil, readHost), mux, "h2", "http/1.1")
}

// upper makes letters large as they come.
type upper struct{ r io.Reader }

func (u upper) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	copy(p[:n], bytes.ToUpper(p[:n]))
	return n, err
}

func replaceWhole(m *verdict.Message) error {
	got, err := io.ReadAll(m.Body())
	if err != nil {
		return err
	}
	got = append([]byte("whole:"), got...)
	m.SetBody(bytes.NewReader(got), int64(len(got)))
	return nil
}

func TestEdits(t *testing.T) {
	ca := newTestCA(t)
	addr := editServer(t, ca)
	down := func(m *verdict.Message) error {
		m.Header.Map(func(_, v string) string { return strings.ReplaceAll(v, "s3cret", "***") })
		m.SetBody(upper{m.Body()}, m.Length())
		return nil
	}
	for _, tc := range []struct {
		name   string
		edits  []verdict.Edit
		accept string
		body   string
		want   string // what the program reads; "METHOD URI KEY|BODY|LENGTH" unless changed
		leak   string
		end    string
		status int
	}{
		{name: "fields", body: "x", edits: []verdict.Edit{{Request: func(m *verdict.Message) error {
			m.Header.Set("x-key", "two")
			m.Query = "a=b"
			return nil
		}}}, want: "POST /p?a=b two|x|1", leak: "s3cret", end: "s3cret"},
		{name: "removed", edits: []verdict.Edit{{Request: func(m *verdict.Message) error {
			m.Header.Del("X-KEY")
			return nil
		}}}, want: "POST /p?q=1 ||0", leak: "s3cret", end: "s3cret"},
		{name: "order", body: "b", edits: []verdict.Edit{
			{Request: func(m *verdict.Message) error { m.Header.Set("X-Key", "1"); return nil }, Response: func(m *verdict.Message) error {
				m.Header.Set("X-Leak", m.Header.Values("X-Leak")[0]+" first")
				return nil
			}},
			{Request: func(m *verdict.Message) error { m.Header.Set("X-Key", m.Header.Values("X-Key")[0]+"2"); return nil }, Response: func(m *verdict.Message) error {
				m.Header.Set("X-Leak", "second")
				return nil
			}},
		}, want: "POST /p?q=1 12|b|1", leak: "second first", end: "s3cret"},
		{name: "stream up", body: "abc", edits: []verdict.Edit{{Request: func(m *verdict.Message) error {
			m.SetBody(upper{m.Body()}, -1)
			return nil
		}}}, want: "POST /p?q=1 one|ABC|-1", leak: "s3cret", end: "s3cret"},
		{name: "whole", body: "abc", edits: []verdict.Edit{{Request: replaceWhole}}, want: "POST /p?q=1 one|whole:abc|9", leak: "s3cret", end: "s3cret"},
		{name: "down", body: "abc", edits: []verdict.Edit{{Response: down, Trailer: func(h *verdict.Header) { h.Set("X-End", "gone") }}}, want: "POST /P?Q=1 ONE|ABC|3", leak: "***", end: "gone"},
		{name: "down, counted", accept: "counted", body: "abc", edits: []verdict.Edit{{Response: down}}, want: "POST /P?Q=1 ONE|ABC|3", leak: "***"},
		{name: "refused", body: "abc", edits: []verdict.Edit{{Request: func(m *verdict.Message) error {
			return &verdict.Refused{Verdict: verdict.Answer{Effect: "deny", Rule: "r", Reason: "not this"}, Answer: []byte("own words"), ContentType: "text/x"}
		}}}, status: 403, want: "own words"},
		{name: "refused in the body", body: "abc", edits: []verdict.Edit{{Request: func(m *verdict.Message) error {
			m.SetBody(io.MultiReader(m.Body(), failing{&verdict.Refused{Status: 451, Verdict: verdict.Answer{Reason: "too late"}}}), -1)
			return nil
		}}}, status: 451, want: "too late"},
		{name: "an answer refused", edits: []verdict.Edit{{Response: func(*verdict.Message) error { return errors.New("a bad answer") }}}, status: 502, want: "a bad answer"},
		{name: "the gate's own", edits: []verdict.Edit{{Request: func(m *verdict.Message) error { m.Header.Set("Host", "evil"); return nil }}}, status: 502, want: "gate's own"},
		{name: "a line end", edits: []verdict.Edit{{Request: func(m *verdict.Message) error { m.Header.Set("A", "b\r\nC: d"); return nil }}}, status: 502, want: "control byte"},
		{name: "a space in the query", edits: []verdict.Edit{{Request: func(m *verdict.Message) error { m.Query = "a b"; return nil }}}, status: 400, want: "in the target"},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(tc.name+" "+proto, func(t *testing.T) {
				w := newInspectedBy(t, ca, addr)
				w.set(readHost, edited(tc.edits...))
				client := w.client()
				if proto == "HTTP/2.0" {
					client = w.client2()
				}
				for i := range 2 { // the second on what the first left of the connection
					req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/p?q=1", strings.NewReader(tc.body))
					req.Header.Set("X-Key", "one")
					req.Header.Set("Accept", tc.accept)
					resp, err := client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || resp.Proto != proto {
						t.Fatalf("%s, %v after %q", resp.Proto, err, got)
					}
					if tc.status != 0 {
						if resp.StatusCode != tc.status || !strings.Contains(string(got), tc.want) {
							t.Errorf("%d %q", resp.StatusCode, got)
						}
						continue
					}
					if string(got) != tc.want || resp.Header.Get("X-Leak") != tc.leak || resp.Trailer.Get("X-End") != tc.end || resp.StatusCode != 200 {
						t.Errorf("%d: %d %q\nwant  %q, leak %q, end %q", i, resp.StatusCode, got, tc.want, resp.Header.Get("X-Leak"), resp.Trailer.Get("X-End"))
					}
				}
			})
		}
	}
}

// What a program sends behind its body is seen by no edit, so it goes no further,
// whether the body is changed or not.
func TestEditDropsTrailers(t *testing.T) {
	ca := newTestCA(t)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s|%s", got, r.Trailer.Get("X-Key"))
	}), "h2", "http/1.1")
	for name, c := range map[string]struct {
		edits []verdict.Edit
		want  string
	}{
		"control":   {nil, "abc|behind"},
		"head only": {[]verdict.Edit{{Request: func(m *verdict.Message) error { m.Header.Del("X-Key"); return nil }}}, "abc|"},
		"body":      {[]verdict.Edit{{Request: func(m *verdict.Message) error { m.SetBody(upper{m.Body()}, -1); return nil }}}, "ABC|"},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			w := newInspectedBy(t, ca, addr)
			w.set(readHost, edited(c.edits...))
			client := w.client()
			if proto == "HTTP/2.0" {
				client = w.client2()
			}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/", io.MultiReader(strings.NewReader("abc")))
			req.Trailer = http.Header{"X-Key": {"behind"}}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != c.want || resp.Proto != proto {
				t.Errorf("%s %s: %q, %v; want %q", name, resp.Proto, got, err, c.want)
			}
			resp.Body.Close()
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A program that waits with its body is told to go on where an edit wants it,
// and the server is not asked.
func TestEditContinue(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, editServer(t, ca))
	w.set(readHost, edited(verdict.Edit{Request: replaceWhole}))
	client := w.client()
	client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/", strings.NewReader("abc"))
	req.Header.Set("Expect", "100-continue")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); string(got) != "POST / |whole:abc|9" {
		t.Errorf("%q", got)
	}
}

// What an edit refuses after the server's head is gone never looks whole, and
// what it refuses before is never seen.
func TestEditRefusesUnseen(t *testing.T) {
	server := serveText(t, func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" })
	w := newWorld(t, map[string]string{"plain.test": server.addr})
	v := edited(verdict.Edit{Request: func(m *verdict.Message) error {
		if got, _ := io.ReadAll(m.Body()); slices.Equal(got, []byte("bad")) {
			return &verdict.Refused{Verdict: verdict.Answer{Reason: "bad body"}}
		}
		return nil
	}})
	w.set("plain.test", v)
	c := w.dial("plain.test", 80)
	write(t, c, "POST / HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n")
	if got, _ := readAll(t, c); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "bad body") {
		t.Errorf("%q", got)
	}
	w.reason("bad body")
	if heads := server.seen(); len(heads) > 0 {
		t.Errorf("the server saw %q", heads)
	}
}

// A field that is set arrives, whatever the program sends in its place or has
// dropped on the way.
func TestEditedFieldArrives(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, editServer(t, ca))
	w.set(readHost, edited(verdict.Edit{Request: func(m *verdict.Message) error { m.Header.Set("X-Key", "ours"); return nil }}))
	for _, fields := range []string{
		"", "X-Key: theirs\r\n", "x-key: theirs\r\nX-Key: theirs\r\n", "X_Key: theirs\r\n",
		"Connection: X-Key\r\n", "Connection: close, x-key\r\n", "X-Key: theirs\r\nConnection: keep-alive, X-KEY\r\n",
	} {
		c := w.open("http/1.1")
		write(t, c, "GET /x HTTP/1.1\r\nHost: api.test\r\n"+fields+"\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "GET /x ours||0" {
			t.Errorf("with %q: %q %v", fields, got, err)
		}
		resp.Body.Close()
		c.Close()
	}
}

// A connection on which bodies are changed carries the next request, pipelined
// or not.
func TestEditKeepsConnection(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, editServer(t, ca))
	w.set(readHost, edited(verdict.Edit{
		Request:  func(m *verdict.Message) error { m.SetBody(upper{m.Body()}, -1); return nil },
		Response: func(m *verdict.Message) error { m.SetBody(upper{m.Body()}, -1); return nil },
	}))
	c := w.open("http/1.1")
	const request = "POST /x HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	write(t, c, request+request)
	r := bufio.NewReader(c)
	for range 2 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "POST /X |ABC|-1" {
			t.Errorf("%q %v", got, err)
		}
		resp.Body.Close()
	}
	if n := w.count(verdict.Request); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// What a verdict holds for a request ends with it, though its connection lives on, and
// though nothing was sent of it.
func TestRequestsContextEnds(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), http.NotFoundHandler()))
	asked := make(chan context.Context, 8)
	w.mu.Lock()
	w.decided = func(ctx context.Context, q verdict.Query) {
		if q.Kind == verdict.Request {
			asked <- ctx
		}
	}
	w.mu.Unlock()
	c := w.open()
	r := bufio.NewReader(c)
	for range 2 {
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", readHost); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		select {
		case <-(<-asked).Done():
		case <-time.After(20 * time.Second):
			t.Fatal("the request is over, and its context is not")
		}
	}
}
