package egress_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"cloister/egress"
	"cloister/egress/verdict"
	"cloister/internal/reading"
)

// pgMessage is a first message with its length.
func pgMessage(code uint32, body string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+8))
	return string(append(binary.BigEndian.AppendUint32(b, code), body...))
}

const pgSSL = 80877103

// pgServer takes TLS if it has a certificate, and echoes what comes behind the
// start-up message, which it tells first.
func pgServer(t testing.TB, cert *tls.Certificate) *upstream {
	return serve(t, func(c net.Conn) {
		head := make([]byte, 8)
		for {
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			rest := make([]byte, binary.BigEndian.Uint32(head)-8)
			if _, err := io.ReadFull(c, rest); err != nil {
				return
			}
			if binary.BigEndian.Uint32(head[4:]) != pgSSL {
				_, secure := c.(*tls.Conn)
				if binary.BigEndian.Uint32(head[4:])>>16 == 3 {
					_, _ = io.WriteString(c, "R\x00\x00\x00\x2a\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00")
				}
				fmt.Fprintf(c, "%t %q\n", secure, rest)
				_, _ = io.Copy(c, c)
				return
			}
			if cert == nil {
				_, _ = c.Write([]byte("N"))
				continue
			}
			_, _ = c.Write([]byte("S"))
			c = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*cert}})
		}
	})
}

func TestPostgres(t *testing.T) {
	ca := newTestCA(t)
	good, wrong := ca.leaf(nil, "db.test"), ca.leaf(nil, "other.test")
	for _, tt := range []struct {
		name  string
		cert  *tls.Certificate
		say   string
		want  string // of what comes back
		flow  string // the reason that is recorded
		login string // that was asked about
	}{
		{name: "tls", cert: &good, say: pgMessage(3<<16, "user\x00app\x00database\x00shop\x00\x00") + "Q!", want: "true \"user\\x00app\\x00database\\x00shop\\x00\\x00\"\nQ!", login: "app shop"},
		{name: "plain", say: pgMessage(3<<16, "user\x00app\x00\x00") + "Q!", want: "false \"user\\x00app\\x00\\x00\"\nQ!", login: "app app"},
		{name: "ssl inside", cert: &good, say: pgMessage(pgSSL, "") + pgMessage(80877104, "") + pgMessage(3<<16, "user\x00app\x00\x00"), want: "NNR\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00true", login: "app app"},
		{name: "another user", cert: &good, say: pgMessage(3<<16, "user\x00root\x00\x00"), want: "cloister refused this connection: not root", login: "root root"},
		{name: "wrong name", cert: &wrong, say: pgMessage(3<<16, "user\x00app\x00\x00"), want: "its certificate is for another name", login: "app app", flow: "another name"},
		{name: "twice", cert: &good, say: pgMessage(3<<16, "user\x00app\x00user\x00root\x00\x00"), want: "a parameter twice", flow: "a parameter twice"},
		{name: "http", cert: &good, say: "GET / HTTP/1.1\r\nHost: db.test\r\n\r\n", want: "no first message of PostgreSQL", flow: "no first message"},
		{name: "cancel", cert: &good, say: pgMessage(80877102, "12345678"), want: "true \"12345678\""},
		{name: "cancel with more behind it", cert: &good, say: pgMessage(80877102, "12345678") + "and more", want: "true \"12345678\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := pgServer(t, tt.cert)
			w := newWorld(t, map[string]string{"db.test": up.addr}, func(c *egress.Config) { c.Roots = ca.pool })
			v := allow()
			v.Protocol = "postgres"
			w.set("db.test", v)
			logins := make(chan reading.Login, 8)
			w.mu.Lock()
			w.login = func(l reading.Login) verdict.Answer {
				logins <- l
				if l.User == "app" {
					return v
				}
				return verdict.Answer{Effect: "deny", Rule: "r", Reason: "not " + l.User, Hints: []string{"write so"}}
			}
			w.mu.Unlock()
			c := w.dial("db.test", 5432)
			for i := range len(tt.say) { // one byte each
				if _, err := io.WriteString(c, tt.say[i:i+1]); err != nil {
					break
				}
			}
			_ = c.CloseWrite()
			got, _ := readAll(t, c)
			if !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if strings.Contains(got, "and more") {
				t.Errorf("%q: what nobody was asked about came through", got)
			}
			if strings.Contains(tt.want, "cloister refused") && (!strings.HasPrefix(got, "E\x00\x00") || !bytes.Contains([]byte(got), []byte("\x00Hwrite so\x00")) || up.accepted() > 0) {
				t.Errorf("%q, %d connections", got, up.accepted())
			}
			if tt.flow != "" {
				w.reason(tt.flow)
			}
			login := ""
			select {
			case l := <-logins:
				login = l.User + " " + l.Database
			default:
			}
			if login != tt.login {
				t.Errorf("asked about %q, want %q", login, tt.login)
			}
		})
	}
}

// A program that asks for TLS gets it by the session's authority, once, is refused in
// it, and nothing that came before it counts.
func TestPostgresByTLS(t *testing.T) {
	ca := newTestCA(t)
	good := ca.leaf(nil, readHost)
	up := pgServer(t, &good)
	w := newInspectedBy(t, ca, up.addr)
	v := allow()
	v.Protocol = "postgres"
	w.set(readHost, v)
	w.mu.Lock()
	w.login = func(l reading.Login) verdict.Answer {
		if l.User == "app" {
			return v
		}
		return verdict.Answer{Effect: "deny", Rule: "r", Reason: "not " + l.User, Hints: []string{"write so"}}
	}
	w.mu.Unlock()
	upgrade := func() *tls.Conn {
		raw := w.dial(readHost, 5432)
		write(t, raw, pgMessage(pgSSL, ""))
		if _, err := io.ReadFull(raw, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		return tls.Client(raw, &tls.Config{RootCAs: w.pool, ServerName: readHost})
	}
	for user, want := range map[string]string{"app": "true \"user\\x00app", "root": "cloister refused this connection: not root"} {
		c := upgrade()
		write(t, c, pgMessage(pgSSL, "")+pgMessage(3<<16, "user\x00"+user+"\x00\x00")+"Q!")
		_ = c.CloseWrite()
		got, _ := readAll(t, c)
		if !strings.Contains(got, want) || !strings.HasPrefix(got, "N") || strings.Contains(got, "PLUS") {
			t.Errorf("%s: %q", user, got)
		}
	}
	before := up.accepted()
	c := w.dial(readHost, 5432)
	write(t, c, pgMessage(pgSSL, "")+pgMessage(3<<16, "user\x00app\x00\x00"))
	if got, _ := readAll(t, c); !strings.Contains(got, "bytes behind a request for TLS") {
		t.Errorf("%q", got)
	}
	pinned := tls.Client(upgrade().NetConn(), &tls.Config{RootCAs: ca.pool, ServerName: readHost})
	if pinned.Handshake() == nil {
		t.Error("a program took a certificate that it does not trust")
	}
	w.reason("does not trust the session's certificate")
	if up.accepted() != before {
		t.Error("the server was asked")
	}
}

// What says who wants what is bytes up too.
func TestPostgresQuota(t *testing.T) {
	up := pgServer(t, nil)
	w := newWorld(t, map[string]string{"db.test": up.addr}, bounded(egress.Quota{UploadHost: 1000}))
	v := allow()
	v.Protocol = "postgres"
	w.set("db.test", v)
	for _, tt := range []struct {
		name string
		most int
	}{{"app", 1}, {strings.Repeat("x", 2000), 0}} {
		c := w.dial("db.test", 5432)
		write(t, c, pgMessage(3<<16, "user\x00app\x00application_name\x00"+tt.name+"\x00\x00"))
		_ = c.CloseWrite()
		if got, _ := readAll(t, c); strings.Count(got, "application_name") != tt.most {
			t.Errorf("%.100q", got)
		}
	}
	w.reason("bytes sent to this host")
}

// Where rules read logins no request goes, whoever brings it.
func TestRequestWhereLoginsAreRead(t *testing.T) {
	up := pgServer(t, nil)
	w := newWorld(t, map[string]string{"db.test": up.addr})
	v := allow()
	v.Protocol = "postgres"
	w.set("db.test", v)
	c := w.connect("198.18.0.1:3128")
	write(t, c, "GET http://db.test:5432/ HTTP/1.1\r\nHost: db.test:5432\r\n\r\n")
	if got, _ := readAll(t, c); !strings.HasPrefix(got, "HTTP/1.1 403 ") || up.accepted() > 0 {
		t.Errorf("%q, %d connections", got, up.accepted())
	}
	w.reason("rules read the logins")
}

// A verdict that names a protocol which nobody speaks refuses.
func TestUnknownProtocol(t *testing.T) {
	up := serve(t, echo)
	w := newWorld(t, map[string]string{"x.test": up.addr})
	v := allow()
	v.Protocol = "gopher"
	w.set("x.test", v)
	c := w.dial("x.test", 70)
	write(t, c, "\x00")
	if got, _ := readAll(t, c); got != "" || up.accepted() > 0 {
		t.Errorf("%q", got)
	}
	w.reason("not known here")
}

// A tunnel ends when rules begin to speak of logins to its host, and a login when
// it is no longer allowed.
func TestRecheckLogin(t *testing.T) {
	up := pgServer(t, nil)
	w := newWorld(t, map[string]string{"db.test": up.addr})
	tunnel := w.dial("db.test", 5432)
	write(t, tunnel, pgMessage(3<<16, "user\x00app\x00\x00"))
	if _, err := io.ReadFull(tunnel, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	v := allow()
	v.Protocol = "postgres"
	w.set("db.test", v)
	w.engine.Recheck(t.Context())
	_, _ = io.Copy(io.Discard, tunnel)
	w.reason("rules read the requests")

	c := w.dial("db.test", 5432)
	write(t, c, pgMessage(3<<16, "user\x00app\x00\x00"))
	if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	w.engine.Recheck(t.Context())
	write(t, c, "still")
	w.mu.Lock()
	w.login = func(reading.Login) verdict.Answer { return verdict.Answer{Effect: "deny", Reason: "not any more"} }
	w.mu.Unlock()
	w.engine.Recheck(t.Context())
	_, _ = io.Copy(io.Discard, c)
	w.reason("not any more")
}
