package egress

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
	"cloister/egress/internal/tunnel"
	"cloister/egress/internal/verdict"
	"cloister/egress/internal/wire"
)

// servePostgres reads PostgreSQL's start-up message and holds user and database to
// the rules. A program that asks for TLS gets it, by the session's authority; to the
// server it is TLS, verified, wherever the server takes that. SCRAM cannot be bound to
// a channel that ends here: programs are not offered it, and libpq is told by a
// variable (PGCHANNELBINDING); without that it logs in once more without TLS, where
// it may (sslmode=prefer), since a server that offers binding refuses who could.
func servePostgres(s *stream, ctx context.Context) {
	s.readBy(s.e.limits.Handshake)
	first, message, err := s.readPostgres(ctx)
	if err != nil {
		if dial.IsTimeout(err) || errors.Is(err, io.EOF) {
			s.refuseSilent(err)
			return
		}
		f := s.flow(Flow{Kind: Connect, Reason: "postgres: " + err.Error()})
		s.refusePostgres(s.e.refused(f), "08P01", refusal.Refusal{Reason: f.Reason})
		return
	}
	if first.Code != wire.PGCancel {
		v := s.login(ctx, Login{Protocol: "postgres", User: first.User, Database: first.Database})
		if !v.Allow {
			s.refusePostgres(true, "28000", refusal.Of(v, s.target))
			s.tellEnd()
			return
		}
	}
	if err := s.dialPostgres(ctx); err != nil {
		f := s.dialFailed(Flow{Kind: Connect}, err)
		s.refusePostgres(true, "08006", refusal.Undialed(f, err))
		return
	}
	if err := s.e.quota.Take(); err != nil {
		f := s.flow(Flow{Kind: Connect})
		if form, ok := errors.AsType[*verdict.Form](err); ok {
			f.RefusedBy(form)
		}
		s.refusePostgres(s.e.refused(f), "53300", refusal.OfFlow(f))
		return
	}
	s.readBy(0)
	t := s.newTunnel()
	err = t.Up.Spend(int64(len(message)))
	if err == nil {
		_, err = s.up.Conn.Write(message)
	}
	if err != nil {
		s.reset()
		s.closed(t, err)
		return
	}
	t.Up.N.Add(int64(len(message)))
	if first.Code == wire.PGCancel {
		s.client.Take(len(s.client.Held())) // it says nothing more, and nobody asked who it is
		t.Up.Edit = func(out, _ []byte) ([]byte, error) { return out, nil }
	} else if err := s.offerPostgres(t); err != nil {
		s.reset()
		s.closed(t, err)
		return
	}
	t.StartDown()
	s.finishTunnel(t)
}

// readPostgres reads the message that says who wants what. A request for TLS is met
// once, one for GSSAPI never.
func (s *stream) readPostgres(ctx context.Context) (wire.PGFirst, []byte, error) {
	secure := false
	for range 3 {
		first, n, err := wire.ParsePGFirst(s.client.Held())
		for errors.Is(err, wire.ErrShort) {
			if err := s.client.Fill(wire.MaxHead); err != nil {
				return first, nil, err
			}
			first, n, err = wire.ParsePGFirst(s.client.Held())
		}
		if err != nil {
			return first, nil, err
		}
		message := append([]byte(nil), s.client.Take(n)...)
		if first.Code != wire.PGSSL && first.Code != wire.PGGSS {
			return first, message, nil
		}
		if first.Code == wire.PGSSL && s.e.cfg.CA != nil && !secure {
			if err := s.securePostgres(ctx); err != nil {
				return first, nil, err
			}
			secure = true
			continue
		}
		if _, err := s.client.Conn.Write([]byte{'N'}); err != nil {
			return first, nil, err
		}
	}
	return wire.PGFirst{}, nil, errors.New("too many requests for encryption")
}

// securePostgres opens TLS to the program, which has asked for it. What came unencrypted
// behind the question is no one's word (CVE-2021-23214).
func (s *stream) securePostgres(ctx context.Context) error {
	if len(s.client.Held()) > 0 {
		return errors.New("bytes behind a request for TLS")
	}
	config, err := s.e.cfg.CA.Config(s.target.Host(), "")
	if err != nil {
		return err
	}
	if _, err := s.client.Conn.Write([]byte{'S'}); err != nil {
		return err
	}
	conn := tls.Server(s.client, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if why := dial.AlertOf(err); why != "" {
			return errors.New("the program does not trust the session's certificate (" + why +
				"): name its authorities by sslrootcert=$SSL_CERT_FILE")
		}
		return err
	}
	s.client = peek.New(conn, s.lease)
	return nil
}

// dialPostgres connects, by TLS where the server takes it.
func (s *stream) dialPostgres(ctx context.Context) error {
	if s.up == nil || s.upTarget != s.target { // a proxy's client has dialled already
		if err := s.dial(ctx, s.target); err != nil {
			return err
		}
	}
	broken := &dial.Error{Status: 502, Words: "connect to " + s.target.String() + ": it does not speak PostgreSQL"}
	_ = s.up.SetDeadline(time.Now().Add(s.e.limits.Handshake)) // fails on a closed connection only
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), wire.PGSSL)
	// One byte and no more: what comes unencrypted behind it is no one's word
	// (CVE-2021-23222).
	var answer [1]byte
	if _, err := s.up.Conn.Write(request); err != nil {
		return broken
	}
	if _, err := io.ReadFull(s.up.Conn, answer[:]); err != nil {
		return broken
	}
	switch answer[0] {
	case 'S':
		if err := s.dialTLS(ctx, s.target); err != nil {
			return err
		}
	case 'N':
	default:
		return broken
	}
	_ = s.up.SetDeadline(time.Time{})
	return nil
}

// offerPostgres passes on what the server says up to the ways to log in that it
// offers, less the one that binds to a TLS connection which the program does not
// have.
func (s *stream) offerPostgres(t *tunnel.Tunnel) error {
	_ = s.up.SetReadDeadline(time.Now().Add(s.e.limits.Handshake)) // fails on a closed connection only
	for range 8 {
		offer, n, err := wire.PlainPGOffer(s.up.Held())
		for errors.Is(err, wire.ErrShort) {
			if err := s.up.Fill(wire.MaxHead); err != nil {
				return err
			}
			offer, n, err = wire.PlainPGOffer(s.up.Held())
		}
		if err != nil {
			return err
		}
		last := s.up.Held()[0] == 'R' || s.up.Held()[0] == 'E'
		s.up.Take(n)
		w, err := s.client.Conn.Write(offer)
		t.Down.N.Add(int64(w))
		if err != nil || last {
			_ = s.up.SetReadDeadline(time.Time{})
			return errors.Join(err, s.passHeld(t))
		}
	}
	return errors.New("a server that talks before it asks who is there")
}

// passHeld passes on what was read of the server and not needed.
func (s *stream) passHeld(t *tunnel.Tunnel) error {
	w, err := s.client.Conn.Write(s.up.Take(len(s.up.Held())))
	t.Down.N.Add(int64(w))
	s.up.Drop()
	return err
}

// refusePostgres tells a refusal in the protocol's words, if the program may receive it.
func (s *stream) refusePostgres(told bool, code string, r refusal.Refusal) {
	if !told || s.killed() != nil {
		s.reset()
		return
	}
	s.say(wire.AppendPGError(nil, code, "cloister refused this connection: "+r.Reason, r.Where(),
		strings.Join(r.Hints, "\n")))
}
