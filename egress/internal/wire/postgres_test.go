package wire_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"cloister/egress/internal/wire"
)

// pgFirst is a first message with its length.
func pgFirst(code uint32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+8))
	return append(binary.BigEndian.AppendUint32(b, code), body...)
}

func TestParsePGFirst(t *testing.T) {
	for _, tt := range []struct {
		in             []byte
		user, database string
		err            string
	}{
		{in: pgFirst(wire.PGStartup, "user\x00app\x00database\x00shop\x00application_name\x00\x00\x00"), user: "app", database: "shop"},
		{in: pgFirst(wire.PGStartup, "user\x00app\x00\x00"), user: "app", database: "app"},
		{in: pgFirst(wire.PGStartup, "user\x00app\x00database\x00shop\x00replication\x00true\x00\x00"), user: "app", database: "replication"},
		{in: pgFirst(wire.PGStartup, "user\x00app\x00database\x00shop\x00replication\x00DATABASE\x00\x00"), user: "app", database: "shop"},
		{in: pgFirst(wire.PGStartup+2, "user\x00app\x00\x00"), user: "app", database: "app"},
		{in: pgFirst(wire.PGSSL, "")},
		{in: pgFirst(wire.PGGSS, "")},
		{in: pgFirst(wire.PGCancel, "12345678")},
		{in: pgFirst(wire.PGStartup, "user\x00app\x00user\x00root\x00\x00"), err: "twice"},
		{in: pgFirst(wire.PGStartup, "database\x00shop\x00\x00"), err: "without a user"},
		{in: pgFirst(wire.PGStartup, "user\x00\x00\x00"), err: "without a user"},
		{in: pgFirst(wire.PGStartup, "user\x00app"), err: "without its end"},
		{in: pgFirst(wire.PGStartup, "user\x00app\x00database\x00"), err: "torn"},
		{in: pgFirst(wire.PGStartup, "\x00\x00\x00"), err: "torn"},
		{in: pgFirst(wire.PGStartup, ""), err: "without its end"},
		{in: pgFirst(wire.PGSSL, "x"), err: "another length"},
		{in: pgFirst(wire.PGCancel, ""), err: "without a key"},
		{in: pgFirst(wire.PGCancel, strings.Repeat("k", 4+256))}, // as of PostgreSQL 18
		{in: pgFirst(wire.PGCancel, strings.Repeat("k", 4+257)), err: "or with more"},
		{in: pgFirst(2<<16, "user\x00app\x00\x00"), err: "version"},
		{in: []byte("GET / HTTP/1.1\r\n\r\n"), err: "no first message"},
		{in: []byte{0, 0, 0, 4, 0, 3, 0, 0}, err: "no first message"},
	} {
		m, n, err := wire.ParsePGFirst(append(tt.in, "more"...))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %s", tt.in, err, tt.err)
			}
			continue
		}
		if err != nil || n != len(tt.in) || m.User != tt.user || m.Database != tt.database {
			t.Errorf("%q: %+v, %d, %v", tt.in, m, n, err)
		}
		for i := range tt.in {
			if _, _, err := wire.ParsePGFirst(tt.in[:i]); !errors.Is(err, wire.ErrShort) {
				t.Fatalf("%q: %v", tt.in[:i], err)
			}
		}
	}
}

func FuzzPGFirst(f *testing.F) {
	f.Add(pgFirst(wire.PGStartup, "user\x00app\x00database\x00shop\x00\x00"))
	f.Add(pgFirst(wire.PGSSL, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := wire.ParsePGFirst(b)
		if err != nil {
			return
		}
		if n < 8 || n > len(b) {
			t.Fatalf("%d of %d bytes", n, len(b))
		}
		if m.Code>>16 == 3 && (m.User == "" || m.Database == "" || strings.Contains(m.User+m.Database, "\x00")) {
			t.Fatalf("%+v", m)
		}
	})
}

func TestPlainPGOffer(t *testing.T) {
	for in, want := range map[string]string{
		"R\x00\x00\x00\x2a\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00": "R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00",
		"R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00":                       "R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00",
		"R\x00\x00\x00\x08\x00\x00\x00\x00":                                            "R\x00\x00\x00\x08\x00\x00\x00\x00",
		"E\x00\x00\x00\x06S\x00":                                                       "E\x00\x00\x00\x06S\x00",
	} {
		got, n, err := wire.PlainPGOffer([]byte(in + "more"))
		if err != nil || n != len(in) || string(got) != want {
			t.Errorf("%q: %q, %d, %v", in, got, n, err)
		}
		for i := range in {
			if _, _, err := wire.PlainPGOffer([]byte(in[:i])); !errors.Is(err, wire.ErrShort) {
				t.Fatalf("%q: %v", in[:i], err)
			}
		}
	}
	for _, in := range []string{"HTTP/1.1 400 Bad Request\r\n", "R\x00\x00\x00\x02xxxxx"} {
		if _, _, err := wire.PlainPGOffer([]byte(in)); err == nil || errors.Is(err, wire.ErrShort) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
