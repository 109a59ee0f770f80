package inject_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"cloister/secret"
)

// What a server says outside of bodies, of a value that this session never sent: that of
// another session, or of one before its guardian died.
func TestNothingIsEchoed(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		for name, seeded := range map[string]bool{"control": false, "seeded": true} {
			w := newWorld(t, http2, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
			if v, err := secret.New(real); err != nil {
				t.Fatal(err)
			} else if seeded {
				w.values.Learn("KEY", v)
			}
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				h := rw.Header()
				h.Set("Trailer", "X-Late, "+real)
				h.Set(real, "a name")
				h[strings.ToUpper(real)] = []string{"a name in capitals"}
				h.Set("Location", "https://example.com/?t="+real)
				h.Set("Alt-Svc", real)
				h.Add("Set-Cookie", "a="+real)
				h.Set("Sec-Websocket-Protocol", real)
				h.Set("Keep-Alive", real)
				h.Set("Upgrade", real)
				fmt.Fprint(rw, "body ", real)
				h.Set("X-Late", real)
			}
			resp, err := w.client.Get("https://other.example.com/")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			all := strings.ToLower(fmt.Sprint(resp.Status, resp.Header, string(body), resp.Trailer))
			if strings.Contains(all, strings.ToLower(real)) == seeded {
				t.Errorf("%s: %s", name, all)
			}
			if !strings.Contains(all, "set-cookie") || !strings.Contains(all, "body ") {
				t.Errorf("%s: the rest is gone: %s", name, all)
			}
		}
	})
}

// raw says what a server says, whatever it is.
func (w *world) raw(t *testing.T, says string) string {
	t.Helper()
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, says)
		_ = conn.Close()
	}
	resp, err := w.client.Get("https://example.com/")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.Status, resp.Header, string(body), resp.Trailer, err)
}

func TestNothingIsEchoedInHeads(t *testing.T) {
	for _, says := range []string{
		"HTTP/1.1 200 " + real + "\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 103 " + real + "\r\nLink: " + real + "\r\n" + real + ": x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 100 " + real + "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\n" + real + ": x\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nConnection: " + real + "\r\nExpect: " + real + "\r\nTE: " + real + "\r\nTrailer: " + real + "\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + real + ": x\r\nX-Y: " + real + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=" + real + "\r\nok \r\n5\r\n" + real[:5] + "\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(real)-5, real[5:]),
		"HTTP/1.1 999 " + real + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + real + "\r\n\r\n",
		real + "\r\n\r\n",
	} {
		w := newWorld(t, false, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
		v, _ := secret.New(real)
		w.values.Learn("KEY", v)
		if got := w.raw(t, says); strings.Contains(strings.ToLower(got), strings.ToLower(real)) {
			t.Errorf("%.60q: %s", says, got)
		}
	}
}

// Frames of all kinds, and a message in as many pieces as it has bytes.
func TestNothingIsEchoedInFrames(t *testing.T) {
	pieces := ""
	for i, c := range real {
		first := byte(0)
		if i == 0 {
			first = 1
		}
		pieces += frame(first, string(c))
		if i == 7 {
			pieces += frame(0x89, "between")
		}
	}
	pieces += frame(0x80, "")
	for name, says := range map[string]string{
		"ping": frame(0x89, real), "pong": frame(0x8a, real), "end": frame(0x88, "\x03\xe8"+real), "text": frame(0x81, real), "binary": frame(0x82, real),
		"cut off": frame(0x88, "\x03\xe8"+real[:len(real)-3]), "in pieces": pieces, "in halves": frame(1, real[:9]) + frame(0x89, "") + frame(0x80, real[9:]),
	} {
		w := newWorld(t, false, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
		heard := make(chan []byte, 1)
		w.answer = talk(t, []string{says}, heard, 1)
		ws, err := w.dial(w.held.Placeholder.Text)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(says))
		if _, err := io.ReadFull(ws, got); err != nil {
			t.Errorf("%s: %v after %q", name, err, got)
		}
		_ = ws.Close()
		<-heard
		text := strings.NewReplacer("\x00\x01", "", "\x89\x07between", "", "\x01\x01", "").Replace(string(got))
		if strings.Contains(text, real[:len(real)-3]) || strings.Contains(text, real[:24]) {
			t.Errorf("%s: %q", name, text)
		}
	}
}
