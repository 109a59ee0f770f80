// Package streams is a server of events that say when they were sent, with an echo of
// WebSocket messages.
//
// Its frames are short ones alone.
//
// Most readers want Serve.
package streams

import (
	"bufio"
	"crypto/sha1" // WebSocket's own
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// Every is the pause between two events: each is alone on its way.
	Every      = 2 * time.Millisecond
	EventsPath = "/events/"
	EchoPath   = "/echo"
)

// Serve answers with events that say when they were sent, or echoes messages;
// false is for what asks for neither.
func Serve(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == EchoPath {
		echoFrames(w, r)
		return true
	}
	text, ok := strings.CutPrefix(r.URL.Path, EventsPath)
	if !ok {
		return false
	}
	n, _ := strconv.Atoi(text)
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for range n {
		<-tick.C
		if _, err := fmt.Fprintf(w, "data: %d\n\n", time.Now().UnixNano()); err != nil || http.NewResponseController(w).Flush() != nil {
			return true
		}
	}
	return true
}

// echoFrames is a WebSocket that gives each short frame back.
func echoFrames(w http.ResponseWriter, r *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	for {
		if err := rw.Flush(); err != nil {
			return
		}
		payload, err := ReadFrame(rw.Reader)
		if err != nil {
			return
		}
		_, _ = rw.Write(append([]byte{0x82, byte(len(payload))}, payload...))
	}
}

// ReadFrame reads a frame of at most 125 bytes.
func ReadFrame(r *bufio.Reader) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int(head[1] & 0x7f)
	if head[0] != 0x82 || size > 125 {
		return nil, fmt.Errorf("a frame of %x", head)
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask[:]); err != nil {
			return nil, err
		}
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, err
	}
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return payload, nil
}
