package inject_test

import (
	"bytes"
	"crypto/sha1" // RFC 6455 names it
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloister/secret"
)

const wsKey = "dGhlIHNhbXBsZSBub25jZQ=="

// frame is one of a server's frames; first is its first byte.
func frame(first byte, text string) string {
	head := []byte{first, byte(len(text))}
	if len(text) > 125 {
		head = []byte{first, 126, byte(len(text) >> 8), byte(len(text))}
	}
	return string(head) + text
}

// masked is one of a program's frames.
func masked(text string) []byte {
	out := []byte{0x81, 0x80 | byte(len(text)), 1, 2, 3, 4}
	if len(text) > 125 {
		out = []byte{0x81, 0xfe, byte(len(text) >> 8), byte(len(text)), 1, 2, 3, 4}
	}
	for i := range len(text) {
		out = append(out, text[i]^byte(i%4+1))
	}
	return out
}

// talk is a server that speaks WebSocket: it says what it is told, reads until the
// program has said as much, and ends.
func talk(t *testing.T, says []string, heard chan<- []byte, n int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Sec-WebSocket-Extensions"); got != "" {
			t.Errorf("the server is offered %q, whose frames could not be read", got)
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		sum := sha1.Sum([]byte(wsKey + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
		for _, text := range says {
			_, _ = io.WriteString(conn, text)
		}
		text := make([]byte, n)
		got, _ := io.ReadFull(rw, text)
		heard <- text[:got]
	}
}

// dial makes a WebSocket with a request that carries the secret, or none.
func (w *world) dial(key string) (io.ReadWriteCloser, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "https://example.com/ws", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": wsKey,
		"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits", "X-Api-Key": key,
	} {
		req.Header.Set(name, value)
	}
	resp, err := w.client.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		w.t.Fatalf("status %d", resp.StatusCode)
	}
	return conn, nil
}

func TestScrubsFrames(t *testing.T) {
	w := newWorld(t, false, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
	whole := "key=" + real + "."
	first, rest := "a"+real[:30], real[30:]+"b"
	says := []string{
		frame(0x81, whole), frame(0x82, strings.Repeat("x", 300)+real),
		frame(0x81, base64.StdEncoding.EncodeToString([]byte("the key is "+real+" !"))), frame(0x81, hex.EncodeToString([]byte(real))),
		frame(0x01, first), frame(0x89, "ping"), frame(0x80, rest), // in two frames, with another between
		frame(0x81, "sk-ant-api03-Canary"), frame(0x81, "bye"),
	}
	// One of them comes in pieces.
	says = append(says[:1:1], append([]string{says[1][:320], says[1][320:]}, says[2:]...)...)
	w.answer = talk(t, says, make(chan []byte, 1), 0)
	conn, err := w.dial(w.held.Placeholder.Text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(strings.Join(says, "")) {
		t.Errorf("%d bytes of frames for %d", len(got), len(strings.Join(says, "")))
	}
	text := string(got)
	for _, form := range []string{real, real[13:], hex.EncodeToString([]byte(real)), base64.StdEncoding.EncodeToString([]byte("the key is " + real + " !")), rest} {
		if strings.Contains(text, form) {
			t.Errorf("it has %q", form)
		}
	}
	for _, whole := range []string{frame(0x81, "key="+w.held.Placeholder.Text+"."), frame(0x89, "ping"), frame(0x81, "sk-ant-api03-Canary"), frame(0x81, "bye")} {
		if !strings.Contains(text, whole) {
			t.Errorf("%q is not in %q", whole, text)
		}
	}
}

// SE-03: a placeholder in a WebSocket's text goes nowhere, unless the handshake
// carried a secret where it belongs.
func TestPlaceholderInFrames(t *testing.T) {
	w := newWorld(t, false, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
	heard := make(chan []byte, 1)
	said := masked("hello " + w.held.Placeholder.Text)
	w.answer = talk(t, nil, heard, len(said))
	conn, err := w.dial("none")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{said[:20], said[20:]} {
		if _, err := conn.Write(part); err != nil {
			break
		}
	}
	_, _ = io.ReadAll(conn)
	_ = conn.Close()
	got := <-heard
	_, record := w.took()
	if !strings.Contains(record, "refuse KEY frame of a WebSocket example.com:443") {
		t.Errorf("recorded: %s", record)
	}
	if len(got) > 20 {
		t.Errorf("the server heard %d of %d bytes", len(got), len(said))
	}

	w = newWorld(t, false, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
	said = masked("hello " + w.held.Placeholder.Text)
	w.answer = talk(t, nil, heard, len(said))
	if conn, err = w.dial(w.held.Placeholder.Text); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(said); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(conn)
	_ = conn.Close()
	got = <-heard
	if _, record := w.took(); !bytes.Equal(got, said) || !strings.Contains(record, "seen KEY frame of a WebSocket") {
		t.Errorf("heard %d of %d bytes; recorded: %s", len(got), len(said), record)
	}
}
