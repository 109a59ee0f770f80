package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// insideWord makes this program the client that a contender runs, in a
// cloister or beside it: an order a line on its input, an answer a line on its
// output. So contenders can take turns without starting anew.
const insideWord = "inside"

// order is what the client shall do, and to whom.
type order struct {
	Do    string // upload, download, connect, look up and connect, dns, requests, events, messages, handshakes, fetch, hold
	To    string // host:port
	Proxy string // an HTTP proxy to CONNECT through; "env" is the environment's
	Bytes int64
	Times int
	Wide  int // how many at once
	Name  string
	Token string // a variable that holds a credential for requests
	Word  string // instead of what Token holds
	Roots string // PEM file of those whom the client trusts; empty is the system's

	held *holding
	at   string // the address to which To was looked up; empty looks up each time
}

type answer struct {
	Seconds      float64
	Began, Ended int64     // unix nanoseconds
	Each         []float64 // how long each took, where that is told
	Error        string
}

func inside([]string) error {
	in := json.NewDecoder(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	var held holding
	for {
		o := order{held: &held}
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if o.Proxy == "env" {
			o.Proxy = envProxy()
		}
		began := time.Now()
		var each []float64
		err := o.obey(&each, &began)
		a := answer{Seconds: time.Since(began).Seconds(), Began: began.UnixNano(), Ended: time.Now().UnixNano(), Each: each}
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

func envProxy() string {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY"} {
		if u, err := url.Parse(os.Getenv(name)); err == nil && u.Host != "" {
			return os.Getenv(name)
		}
	}
	return ""
}

func (o order) obey(took *[]float64, began *time.Time) (err error) {
	switch o.Do {
	case "upload", "download":
		return o.bulk()
	case "connect":
		if err := o.lookUp(); err != nil {
			return err
		}
		return o.each(o.touch)
	case "look up and connect":
		return o.each(o.touch)
	case "dns":
		return o.each(o.ask)
	case "requests":
		*took, err = o.requests(began)
		return err
	case "events":
		*took, err = o.events()
		return err
	case "messages":
		*took, err = o.messages()
		return err
	case "handshakes":
		if err := o.lookUp(); err != nil {
			return err
		}
		return o.each(o.handshake)
	case "fetch":
		return o.fetch()
	case "hold":
		return o.hold()
	}
	return fmt.Errorf("unknown order %q", o.Do)
}

// each does a small thing so often, so many at once.
func (o order) each(do func() error) error {
	var left atomic.Int64
	left.Store(int64(o.Times))
	var wait sync.WaitGroup
	failed := make([]error, max(1, o.Wide))
	for i := range failed {
		wait.Go(func() {
			for left.Add(-1) >= 0 {
				if failed[i] = do(); failed[i] != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// lookUp puts an address in the place of a name, once for all connections. A proxy
// is told the name.
func (o *order) lookUp() error {
	if o.Proxy != "" {
		return nil
	}
	to, err := net.ResolveTCPAddr("tcp", o.To)
	if err == nil {
		o.at = to.String()
	}
	return err
}

// dial connects, by CONNECT where there is a proxy.
func (o order) dial() (*net.TCPConn, error) {
	to, auth := cmp.Or(o.at, o.To), ""
	if o.Proxy != "" {
		u, err := url.Parse(o.Proxy)
		if err != nil {
			return nil, err
		}
		to = u.Host
		if u.User != nil {
			r := http.Request{Header: http.Header{}}
			password, _ := u.User.Password()
			r.SetBasicAuth(u.User.Username(), password)
			auth = "Proxy-Authorization: " + r.Header.Get("Authorization") + "\r\n"
		}
	}
	raw, err := net.DialTimeout("tcp", to, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c, ok := raw.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("dial %s: %T", to, raw)
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if o.Proxy == "" {
		return c, nil
	}
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", o.To, o.To, auth); err != nil {
		return nil, err
	}
	// Byte by byte: what follows the head belongs to the tunnel.
	var head strings.Builder
	one := make([]byte, 1)
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		if _, err := io.ReadFull(c, one); err != nil {
			return nil, fmt.Errorf("connect through the proxy: %w after %q", err, head.String())
		}
		head.Write(one)
	}
	if _, status, _ := strings.Cut(head.String(), " "); !strings.HasPrefix(status, "200") {
		return nil, fmt.Errorf("connect through the proxy: %q", head.String())
	}
	return c, nil
}

// The server's orders are the first byte: swallow, pour, echo one. No letter:
// on a port without a fixed protocol the gate waits for the end of what could
// be the first line of an HTTP request.
const (
	swallow = 1 + iota
	pour
	echo
)

func (o order) bulk() error {
	c, err := o.dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	buf := make([]byte, 256<<10)
	if o.Do == "download" {
		if _, err := fmt.Fprintf(c, "%c%020d", pour, o.Bytes); err != nil {
			return err
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, buf)
		if err == nil && n != o.Bytes {
			err = fmt.Errorf("%d bytes of %d came", n, o.Bytes)
		}
		return err
	}
	// The size goes first: a half-close would end squid's tunnel.
	if _, err := fmt.Fprintf(c, "%c%020d", swallow, o.Bytes); err != nil {
		return err
	}
	for left := o.Bytes; left > 0; {
		n, err := c.Write(buf[:min(left, int64(len(buf)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	told := make([]byte, 1) // when the server has it all
	if _, err := io.ReadFull(c, told); err != nil || told[0] != swallow {
		return fmt.Errorf("the server's word after the upload: %w", err)
	}
	return nil
}

func (o order) touch() error {
	c, err := o.dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	b := []byte{echo}
	if _, err := c.Write(b); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	return c.SetLinger(0) // no socket stays in TIME_WAIT
}

// ask sends one question and waits for its answer.
func (o order) ask() error {
	name, err := dnsmessage.NewName(o.Name)
	if err != nil {
		return err
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	text, err := m.Pack()
	if err != nil {
		return err
	}
	c, err := net.Dial("udp", o.To)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write(text); err != nil {
		return err
	}
	buf := make([]byte, 1500)
	n, err := c.Read(buf)
	if err == nil && (n < len(text) || buf[0] != text[0] || buf[1] != text[1]) {
		err = fmt.Errorf("%d bytes are no answer", n)
	}
	return err
}

// serve is the other end, in the bench itself: orders by the first byte.
func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			first := make([]byte, 1)
			if _, err := io.ReadFull(c, first); err != nil {
				return
			}
			if first[0] == echo {
				_, _ = c.Write(first)
				_, _ = c.Read(first) // until it is reset
				return
			}
			buf := make([]byte, 256<<10)
			size := make([]byte, 20)
			if _, err := io.ReadFull(c, size); err != nil {
				return
			}
			left, err := strconv.ParseInt(string(size), 10, 64)
			if err != nil {
				return
			}
			if first[0] == swallow {
				n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(c, left), buf)
				if n == left {
					_, _ = c.Write(first)
				}
				return
			}
			for left > 0 {
				n, err := c.Write(buf[:min(left, int64(len(buf)))])
				if err != nil {
					return
				}
				left -= int64(n)
			}
		}()
	}
}
