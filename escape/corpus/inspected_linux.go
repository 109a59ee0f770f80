package corpus

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"cloister/escape"
)

// opened is TLS to a name whose requests rules read; outside, to its server. An
// attacker looks at no certificate.
func opened(in escape.Inside, name string, protos ...string) (*tls.Conn, error) {
	addr := name + ":443"
	if in.Control {
		addr = "127.0.0.1:" + itoa(in.Secure)
		if name == escape.RawName {
			addr = "127.0.0.1:" + itoa(in.Raw)
		}
	}
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, plain(err)
	}
	conn := tls.Client(c, &tls.Config{ServerName: name, NextProtos: protos, InsecureSkipVerify: true})
	if err := errors.Join(conn.SetDeadline(time.Now().Add(10*time.Second)), conn.Handshake()); err != nil {
		c.Close()
		return nil, plain(err)
	}
	return conn, nil
}

// within sends texts one after another within TLS and judges the last answer;
// those before must be good ones, and are read to their end.
func within(in escape.Inside, name string, texts ...string) error {
	c, err := opened(in, name)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, text := range texts[:len(texts)-1] {
		if _, err := c.Write([]byte(text)); err != nil {
			return plain(err)
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("an earlier request: %w", errors.Join(errEarlier, err))
		}
		if res.StatusCode != http.StatusSwitchingProtocols {
			_, err = io.Copy(io.Discard, res.Body)
		}
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode >= 300 {
			return fmt.Errorf("an earlier request: %w: %s", errors.Join(errEarlier, err), res.Status)
		}
	}
	return converse(c, texts[len(texts)-1])
}

// errEarlier is an answer that proves nothing: the way to the attempt was not there.
var errEarlier = errors.New("it was not answered")

// good is a try that has to come off, with whose success the others are worth
// something.
func good(name string, in escape.Inside, do func() error) escape.Try {
	return escape.Try{Name: name + " must come off", Held: []error{escape.ErrNothing}, Do: func() error {
		if in.Control {
			return do()
		}
		if err := do(); err != nil {
			return fmt.Errorf("the way is not there: %w", errors.Join(errEarlier, err))
		}
		return escape.ErrNothing
	}}
}

// stream asks one question in HTTP/2, with exactly these fields, and judges the
// answer's status.
func stream(in escape.Inside, name string, fields ...[2]string) error {
	c, err := opened(in, name, "h2")
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		return plain(err)
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	for _, field := range fields {
		if err := enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			return err
		}
	}
	if err := errors.Join(f.WriteSettings(), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndStream: true, EndHeaders: true})); err != nil {
		return plain(err)
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
			return escape.ErrRefused // it was closed
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				if err := f.WriteSettingsAck(); err != nil {
					return plain(err)
				}
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return escape.ErrRefused
		case *http2.MetaHeadersFrame:
			if strings.HasPrefix(frame.PseudoValue("status"), "2") {
				return nil
			}
			return escape.ErrRefused
		}
	}
}

// ask are the usual fields of a stream, some replaced or added.
func ask(name string, more ...[2]string) [][2]string {
	out := [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", name}, {":path", "/ok/h2"}}
	for _, m := range more {
		i := 0
		for i < len(out) && (out[i][0] != m[0] || !strings.HasPrefix(m[0], ":")) {
			i++
		}
		if i < len(out) {
			out[i] = m
		} else {
			out = append(out, m)
		}
	}
	return out
}
