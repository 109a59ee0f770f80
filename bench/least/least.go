// Package least is the least that Go can do between two connections: what any
// program between would cost on this machine.
//
// It reads a head, writes it on, and does the same with the answer: no rule, no check,
// no record. It knows bodies by their length alone. Relay does less: it copies.
//
// Most readers want Loop.
package least

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
)

// Loop serves at a listener with a certificate, and passes messages on to a server;
// args are LISTEN TO CERTIFICATE-AND-KEY ROOTS.
func Loop(args []string) error {
	if len(args) != 4 {
		return errors.New("loop: want LISTEN TO CERTIFICATE ROOTS")
	}
	cert, err := tls.LoadX509KeyPair(args[2], args[2])
	if err != nil {
		return fmt.Errorf("loop: %w", err)
	}
	text, err := os.ReadFile(args[3])
	if err != nil {
		return fmt.Errorf("loop: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return fmt.Errorf("loop: %w", err)
	}
	in := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true}
	out := &tls.Config{
		RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(8), DynamicRecordSizingDisabled: true,
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return fmt.Errorf("loop: %w", err)
		}
		go func() {
			defer c.Close()
			raw, err := net.Dial("tcp", args[1])
			if err != nil {
				return
			}
			defer raw.Close()
			pass(tls.Server(c, in), tls.Client(raw, out))
		}()
	}
}

// pass gives each message on by itself, a read and a write for each, until one side
// ends.
func pass(client, server *tls.Conn) {
	buf := make([]byte, 32<<10)
	for {
		if err := message(client, server, buf); err != nil {
			return
		}
		if err := message(server, client, buf); err != nil {
			return
		}
	}
}

// message passes a head on and the body that its length tells.
func message(from, to *tls.Conn, buf []byte) error {
	n, end := 0, -1
	for end < 0 {
		got, err := from.Read(buf[n:])
		if n += got; err != nil {
			return err
		}
		if end = bytes.Index(buf[:n], []byte("\r\n\r\n")); end < 0 && n == len(buf) {
			return errors.New("a head that is too long")
		}
	}
	left := int64(end + 4 - n)
	const field = "\r\nContent-Length: "
	if at := bytes.Index(buf[:end+2], []byte(field)); at >= 0 {
		text, _, _ := bytes.Cut(buf[at+len(field):end+2], []byte("\r\n"))
		length, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return err
		}
		left += length
	}
	if _, err := to.Write(buf[:n]); err != nil || left <= 0 {
		return err
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{io.LimitReader(from, left)}, buf)
	return err
}
