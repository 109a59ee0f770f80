package escape

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sinks are servers of the host that nothing inside may reach, and one behind
// allowed names that keeps what it was sent.
type sinks struct {
	port, upstream, tlsPort, rawPort int
	hostIP, abstract, path           string
	hidden                           []tls.EncryptedClientHelloKey
	hiding                           map[string][]byte // what hides a name behind another one
	authority                        []byte            // of the certificate behind inspected names

	closers   []interface{ Close() error }
	mu        sync.Mutex
	got       []string
	up        []string
	described string // what the MCP server says of its tools
	first     string // authorization that a server remembers
	wait      sync.WaitGroup
}

func listen(base string) (*sinks, error) {
	s := &sinks{abstract: "@escape-" + base, path: base + "/host.sock"}
	tcp, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	s.port = tcp.Addr().(*net.TCPAddr).Port
	s.serve("tcp", tcp, &s.got)
	udp, err := net.ListenPacket("udp", ":"+strconv.Itoa(s.port))
	if err != nil {
		return s, fmt.Errorf("open sink: %w", err)
	}
	s.closers = append(s.closers, udp)
	s.wait.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			s.keep(&s.got, fmt.Sprintf("udp from %v: %q", from, buf[:n]))
			_, _ = udp.WriteTo([]byte("sunk"), from) // who asked may be gone
		}
	})
	for _, name := range []string{s.abstract, s.path} {
		ln, err := net.Listen("unix", name)
		if err != nil {
			return s, fmt.Errorf("open sink: %w", err)
		}
		s.serve("unix "+name, ln, &s.got)
	}
	if err := os.Chmod(s.path, 0o777); err != nil {
		return s, fmt.Errorf("open sink: %w", err)
	}
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, fmt.Errorf("open sink: %w", err)
	}
	s.upstream = up.Addr().(*net.TCPAddr).Port
	s.serve("upstream", up, &s.up)
	s.hostIP = hostAddress()
	return s, s.secure()
}

// hostAddress is an address of this host that is not loopback.
func hostAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return ""
}

func (s *sinks) keep(list *[]string, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, what)
}

// serve answers every connection as a simple HTTP server would, and keeps what
// it was sent.
func (s *sinks) serve(name string, ln net.Listener, list *[]string) {
	s.closers = append(s.closers, ln)
	s.wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.wait.Go(func() {
				defer c.Close()
				var text []byte
				buf := make([]byte, 4096)
				for {
					_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
					n, err := c.Read(buf)
					text = append(text, buf[:n]...)
					if err != nil {
						break
					}
					if strings.Contains(string(text), "\r\n\r\n") {
						_, _ = c.Write([]byte(reply)) // who asked may be gone
					} else if name != "upstream" || !strings.HasPrefix(string(text), "\x16") {
						_, _ = c.Write([]byte("sunk"))
					}
				}
				s.keep(list, fmt.Sprintf("%s: %.2000q", name, text))
			})
		}
	})
}

// reply sends who asks elsewhere: a proxy that followed would be seen there.
const reply = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 4\r\n\r\nsunk"

func (s *sinks) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.got
	s.got = nil
	return out
}

func (s *sinks) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.up...)
}

func (s *sinks) close() {
	for _, c := range s.closers {
		_ = c.Close() // nobody waits for it any more
	}
	s.wait.Wait()
}

// hide makes what hides the name of a server in an encrypted ClientHello, behind each of
// the names that Bound gives (RFC 9849 4).
func (s *sinks) hide() error {
	s.hiding = map[string][]byte{}
	for i, public := range Bound() {
		private, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		vector := func(b []byte, inner []byte) []byte {
			return append(binary.BigEndian.AppendUint16(b, uint16(len(inner))), inner...)
		}
		contents := []byte{byte(i), 0, 0x20} // config_id, DHKEM(X25519)
		contents = vector(contents, private.PublicKey().Bytes())
		contents = vector(contents, []byte{0, 1, 0, 1}) // HKDF-SHA256, AES-128-GCM
		contents = append(contents, 32, byte(len(public)))
		contents = vector(append(contents, public...), nil)
		config := vector([]byte{0xfe, 0x0d}, contents)
		s.hiding[public] = vector(nil, config)
		s.hidden = append(s.hidden, tls.EncryptedClientHelloKey{Config: config, PrivateKey: private.Bytes(), SendAsRetry: true})
	}
	return nil
}

// Hiding is the configuration by which a program hides another name behind this one.
func (w *World) Hiding(public string) []byte { return w.sinks.hiding[public] }
