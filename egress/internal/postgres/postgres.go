// Package postgres serves connections that speak PostgreSQL, up to the login.
//
// Promise: nothing reaches the server before user and database were allowed. It reads no
// query: what follows the login is passed on as it is.
package postgres

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/stream"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/reading"
)

// A postgres is a stream whose program speaks PostgreSQL.
type postgres struct{ s *stream.Stream }

// Serve reads PostgreSQL's start-up message and holds user and database to
// the rules. A program that asks for TLS gets it, by the session's authority; to the
// server it is TLS, verified, wherever the server takes that. SCRAM cannot be bound to
// a channel that ends here: programs are not offered it, and libpq is configured by a
// variable (PGCHANNELBINDING); without that it logs in once more without TLS, where
// it may (sslmode=prefer), since a server that offers binding refuses a client that could bind and does not.
func Serve(ctx context.Context, s *stream.Stream) {
	p := postgres{s}
	s.Client.ReadBy(s.Session.Limits.Handshake)
	first, message, err := p.read(ctx)
	if err != nil {
		if dial.IsTimeout(err) || errors.Is(err, io.EOF) {
			s.RefuseSilent(err)
			return
		}
		f := s.Flow(verdict.Flow{Kind: verdict.Connect, Reason: "postgres: " + err.Error()})
		p.refuse(s.Session.Refused(f), "08P01", refusal.Refusal{Reason: f.Reason})
		return
	}
	if first.Code != wire.PGCancel {
		v := s.Login(ctx, reading.Login{Protocol: "postgres", User: first.User, Database: first.Database})
		if !v.Allow {
			p.refuse(true, "28000", refusal.Of(v, s.Target))
			s.TellEnd()
			return
		}
	}
	if err := p.dial(ctx); err != nil {
		f := s.DialFailed(verdict.Flow{Kind: verdict.Connect}, err)
		p.refuse(true, "08006", refusal.Undialed(f, err))
		return
	}
	if err := s.Session.Quota.Take(); err != nil {
		f := s.Flow(verdict.Flow{Kind: verdict.Connect})
		if form, ok := errors.AsType[*verdict.Form](err); ok {
			f.RefusedBy(form)
		}
		p.refuse(s.Session.Refused(f), "53300", refusal.OfFlow(f))
		return
	}
	s.Client.ReadBy(0)
	t := s.NewTunnel()
	err = t.Up.Spend(int64(len(message)))
	if err == nil {
		_, err = s.Server.Conn.Write(message)
	}
	if err != nil {
		s.Reset()
		t.Closed(err)
		return
	}
	t.Up.N.Add(int64(len(message)))
	if first.Code == wire.PGCancel {
		s.Client.Take(len(s.Client.Held())) // it says nothing more, and its user was not asked for
		t.Up.Edit = func(out, _ []byte) ([]byte, error) { return out, nil }
	} else if err := p.offer(t); err != nil {
		s.Reset()
		t.Closed(err)
		return
	}
	t.StartDown()
	t.PassOn()
}

// read reads the message that says who wants what. A request for TLS is met
// once, one for GSSAPI never.
func (p postgres) read(ctx context.Context) (wire.PGFirst, []byte, error) {
	secure := false
	for range 3 {
		first, n, err := wire.ParsePGFirst(p.s.Client.Held())
		for errors.Is(err, wire.ErrShort) {
			if err := p.s.Client.Fill(wire.MaxHead); err != nil {
				return first, nil, err
			}
			first, n, err = wire.ParsePGFirst(p.s.Client.Held())
		}
		if err != nil {
			return first, nil, err
		}
		message := append([]byte(nil), p.s.Client.Take(n)...)
		if first.Code != wire.PGSSL && first.Code != wire.PGGSS {
			return first, message, nil
		}
		if first.Code == wire.PGSSL && p.s.Session.CA != nil && !secure {
			if err := p.secure(ctx); err != nil {
				return first, nil, err
			}
			secure = true
			continue
		}
		if _, err := p.s.Client.Conn.Write([]byte{'N'}); err != nil {
			return first, nil, err
		}
	}
	return wire.PGFirst{}, nil, errors.New("too many requests for encryption")
}

// secure opens TLS to the program, which has asked for it. What came unencrypted
// behind the question is no one's word (CVE-2021-23214).
func (p postgres) secure(ctx context.Context) error {
	if len(p.s.Client.Held()) > 0 {
		return errors.New("bytes behind a request for TLS")
	}
	config, err := p.s.Session.CA.Config(p.s.Target.Host(), "")
	if err != nil {
		return err
	}
	if _, err := p.s.Client.Conn.Write([]byte{'S'}); err != nil {
		return err
	}
	conn := tls.Server(p.s.Client.Source, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if why := dial.AlertOf(err); why != "" {
			return errors.New("the program does not trust the session's certificate (" + why +
				"): name its authorities by sslrootcert=$SSL_CERT_FILE")
		}
		return err
	}
	p.s.Client.Source = peek.New(conn, p.s.Lease)
	return nil
}

// dial connects, by TLS where the server takes it.
func (p postgres) dial(ctx context.Context) error {
	if !p.s.Server.There() || p.s.Server.To != p.s.Target { // a proxy's client has dialled already
		if err := p.s.Server.Dial(ctx, p.s.Target); err != nil {
			return err
		}
	}
	broken := &dial.Error{Status: 502, Words: "connect to " + p.s.Target.String() + ": it does not speak PostgreSQL"}
	_ = p.s.Server.SetDeadline(time.Now().Add(p.s.Session.Limits.Handshake)) // fails on a closed connection only
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), wire.PGSSL)
	// One byte and no more: what comes unencrypted behind it is no one's word
	// (CVE-2021-23222).
	var answer [1]byte
	if _, err := p.s.Server.Conn.Write(request); err != nil {
		return broken
	}
	if _, err := io.ReadFull(p.s.Server.Conn, answer[:]); err != nil {
		return broken
	}
	switch answer[0] {
	case 'S':
		if err := p.s.Server.DialTLS(ctx, p.s.Target); err != nil {
			return err
		}
	case 'N':
	default:
		return broken
	}
	_ = p.s.Server.SetDeadline(time.Time{})
	return nil
}

// offer passes on what the server says up to the ways to log in that it
// offers, less the one that binds to a TLS connection which the program does not
// have.
func (p postgres) offer(t stream.Passage) error {
	_ = p.s.Server.SetReadDeadline(time.Now().Add(p.s.Session.Limits.Handshake)) // fails on a closed connection only
	for range 8 {
		offer, n, err := wire.PlainPGOffer(p.s.Server.Held())
		for errors.Is(err, wire.ErrShort) {
			if err := p.s.Server.Fill(wire.MaxHead); err != nil {
				return err
			}
			offer, n, err = wire.PlainPGOffer(p.s.Server.Held())
		}
		if err != nil {
			return err
		}
		last := p.s.Server.Held()[0] == 'R' || p.s.Server.Held()[0] == 'E'
		p.s.Server.Take(n)
		w, err := p.s.Client.Conn.Write(offer)
		t.Down.N.Add(int64(w))
		if err != nil || last {
			_ = p.s.Server.SetReadDeadline(time.Time{})
			return errors.Join(err, p.passHeld(t))
		}
	}
	return errors.New("a server that talks before it asks who is there")
}

// passHeld passes on what was read of the server and not needed.
func (p postgres) passHeld(t stream.Passage) error {
	w, err := p.s.Client.Conn.Write(p.s.Server.Take(len(p.s.Server.Held())))
	t.Down.N.Add(int64(w))
	p.s.Server.Drop()
	return err
}

// refuse tells a refusal in the protocol's words, if the program may receive it.
func (p postgres) refuse(recorded bool, code string, r refusal.Refusal) {
	if !recorded || p.s.Conns.Killed() != nil {
		p.s.Reset()
		return
	}
	p.s.Say(wire.AppendPGError(nil, code, "cloister refused this connection: "+r.Reason, r.Where(),
		strings.Join(r.Hints, "\n")))
}
