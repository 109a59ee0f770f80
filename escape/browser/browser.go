// Package browser sends what a browser would send, and what it never would, for attacks.
//
// The promise: bytes go out as they are written, to a port of this machine.
//
// It judges nothing: the cases do.
//
// Most readers want [Ask] and [Phone].
package browser

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Said is what was answered; status 0: nothing.
type Said struct {
	Status int
	Head   http.Header
	Body   string
}

// Ask sends a request as it is. Of a stream the beginning is read.
func Ask(at, text string) Said {
	c, err := net.DialTimeout("tcp", at, 5*time.Second)
	if err != nil {
		return Said{Body: err.Error()}
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return Said{Body: err.Error()}
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return Said{Body: err.Error()}
	}
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return Said{Body: err.Error()}
	}
	defer res.Body.Close()
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return Said{res.StatusCode, res.Header, "a stream"}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return Said{res.StatusCode, res.Header, err.Error()}
	}
	return Said{res.StatusCode, res.Header, string(body)}
}

// Request is one of the window's own page, with its cookie and its word, some fields of it replaced; an empty value
// takes a field away.
func Request(at string, key [2]string, method, path string, fields ...[2]string) string {
	head := [][2]string{{"Host", at}, {"Origin", "http://" + at}, {"Sec-Fetch-Site", "same-origin"}, {"Cookie", key[0]}, {"Cloister-Window", key[1]}}
	if method == "POST" {
		head = append(head, [2]string{"Content-Type", "application/json"}, [2]string{"Content-Length", "2"})
	}
	for _, f := range fields {
		i := slices.IndexFunc(head, func(h [2]string) bool { return h[0] == f[0] })
		if i < 0 {
			head = append(head, f)
		} else {
			head[i] = f
		}
	}
	var b strings.Builder
	b.WriteString(method + " " + path + " HTTP/1.1\r\n")
	for _, h := range head {
		if h[1] != "" {
			b.WriteString(h[0] + ": " + h[1] + "\r\n")
		}
	}
	b.WriteString("\r\n")
	if method == "POST" {
		b.WriteString("{}")
	}
	return b.String()
}
