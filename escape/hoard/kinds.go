package hoard

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// begin says what HTTP/2 begins with.
func (c *conn) begin(window uint32) {
	_, err := c.Write([]byte(http2.ClientPreface))
	c.do(err)
	c.do(c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	if window > 0 {
		c.do(c.frames.WriteWindowUpdate(0, math.MaxInt32-65535))
	}
}

// head are the fields of a request, and further ones.
func (c *conn) head(method, path string, more ...string) []byte {
	c.heads.Reset()
	fields := append([]string{":method", method, ":scheme", "https", ":authority", c.name, ":path", c.path + path}, more...)
	for i := 0; i < len(fields); i += 2 {
		c.do(c.pack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}))
	}
	return c.heads.Bytes()
}

// ask sends the head of the n-th request, in as many frames as it needs.
func (c *conn) ask(n int, end bool, head []byte) {
	const most = 16 << 10
	id := uint32(2*n + 1)
	first := head[:min(most, len(head))]
	c.do(c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(first) == len(head)}))
	for head = head[len(first):]; len(head) > 0; {
		piece := head[:min(most, len(head))]
		head = head[len(piece):]
		c.do(c.frames.WriteContinuation(id, len(head) == 0, piece))
	}
}

// wide are fields of 48 KiB.
func wide() []string {
	return []string{"x-a", strings.Repeat("a", 16<<10), "x-b", strings.Repeat("b", 16<<10), "x-c", strings.Repeat("c", 16<<10)}
}

func (c *conn) unread() {
	c.begin(math.MaxInt32)
	for n := range streams {
		c.ask(n, true, c.head("GET", "endless"))
	}
	c.stay()
}

func (c *conn) window() {
	c.begin(0)
	for n := range streams {
		c.ask(n, true, c.head("GET", "endless"))
	}
	c.drain()
}

// unfinished gives the bodies what the windows hold.
func (c *conn) unfinished() { c.bodies("deaf", 4, func(n int) int { return n % streams }, false) }

// asked gives one body after another, each whole.
func (c *conn) asked() { c.bodies("asked/deaf", 3, func(n int) int { return n / 3 }, true) }

// bodies begins one in each stream, and gives each so many blocks of 16 KiB as the windows
// allow it, the n-th block to the body that of says.
func (c *conn) bodies(path string, most int, of func(n int) int, whole bool) {
	c.begin(math.MaxInt32)
	for n := range streams {
		c.ask(n, false, c.head("POST", path))
	}
	const size = 16 << 10
	block, credit := make([]byte, size), 65535
	for n := 0; n < streams*most && c.failed() == nil; {
		if credit >= size {
			c.do(c.frames.WriteData(uint32(2*of(n)+1), whole && n%most == most-1, block))
			n, credit = n+1, credit-size
			continue
		}
		frame, err := c.frames.ReadFrame()
		c.do(err)
		if more, is := frame.(*http2.WindowUpdateFrame); is && more.StreamID == 0 {
			credit += int(more.Increment)
		}
	}
	c.stay()
}

func (c *conn) heads100(path string) {
	c.begin(math.MaxInt32)
	for n := range streams {
		c.ask(n, true, c.head("GET", path, wide()...))
	}
}

func (c *conn) manyHeads() {
	c.heads100("deaf")
	c.drain()
}

func (c *conn) continued() {
	c.begin(math.MaxInt32)
	go c.drain()
	head := c.head("GET", "deaf", wide()...)
	c.do(c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head[:1000]}))
	for rest := head[1000:]; len(rest) > 1000; rest = rest[1000:] {
		c.do(c.frames.WriteContinuation(1, false, rest[:1000]))
	}
	c.stay()
}

func (c *conn) answers() {
	c.begin(math.MaxInt32)
	for n := range streams {
		c.ask(n, true, c.head("GET", "head"))
	}
	c.stay()
}

func (c *conn) pings() {
	c.begin(math.MaxInt32)
	for c.failed() == nil && c.ctx.Err() == nil {
		c.do(c.frames.WritePing(false, [8]byte{1}))
		c.do(c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}))
	}
}

func (c *conn) resets() {
	c.begin(math.MaxInt32)
	go c.drain()
	for n := 0; c.failed() == nil && c.ctx.Err() == nil && n < 1<<20; n++ {
		c.ask(n, true, c.head("GET", "deaf"))
		c.do(c.frames.WriteRSTStream(uint32(2*n+1), http2.ErrCodeCancel))
	}
}

// say writes a text of HTTP/1.1.
func (c *conn) say(format string, args ...any) {
	_, err := fmt.Fprintf(c, format, args...)
	c.do(err)
}

func (c *conn) unread1() {
	c.say("GET %sendless HTTP/1.1\r\nHost: %s\r\n\r\n", c.path, c.name)
	c.stay()
}

func (c *conn) unfinished1() {
	c.say("POST %sdeaf HTTP/1.1\r\nHost: %s\r\nContent-Length: 1073741824\r\n\r\n", c.path, c.name)
	block := make([]byte, 64<<10)
	for c.failed() == nil {
		_, err := c.Write(block)
		c.do(err)
	}
	c.stay()
}

func (c *conn) asked1() {
	const size = 48 << 10
	c.say("POST %sasked/deaf HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", c.path, c.name, size, strings.Repeat("b", size))
	c.stay()
}

func (c *conn) head1() {
	c.say("GET %sdeaf HTTP/1.1\r\nHost: %s\r\nX-A: %s", c.path, c.name, strings.Repeat("a", 60<<10))
	c.stay()
}

// hello is the beginning of a record that has the beginning of a ClientHello.
func (c *conn) hello() {
	const of = 15 << 10
	_, err := c.Write(append([]byte{22, 3, 1, of >> 8, of & 0xff, 1, 0, (of - 4) >> 8, (of - 4) & 0xff}, bytes.Repeat([]byte{3}, of-100)...))
	c.do(err)
	c.stay()
}
