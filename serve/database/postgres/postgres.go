package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"cloister/serve/database"
)

// Bounds of the connections, and of what one call may take.
const (
	maxConns   = 16
	dialWithin = 5 * time.Second
	within     = "6000" // milliseconds: less than a client waits
)

// Database is a database with its tables.
type Database struct {
	db  *sql.DB
	ctx context.Context
}

// Check refuses an address by which a password would leave this host in the clear, and one that
// has a password: who lists this host's processes would read it.
func Check(address string) (*pgx.ConnConfig, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("want postgres://USER@HOST/NAME")
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return nil, errors.New("it holds a password, which every user of this host could read: " +
			"PGPASSWORD or ~/.pgpass has it")
	}
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("it cannot be read: want postgres://USER@HOST/NAME") // its words could hold a password
	}
	for _, f := range append([]*pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}, c.Fallbacks...) {
		if local(f.Host) {
			continue
		}
		if f.TLSConfig == nil || f.TLSConfig.InsecureSkipVerify {
			return nil, fmt.Errorf("the connection to %s would not be verified: add sslmode=verify-full", f.Host)
		}
	}
	return c, nil
}

// local says that a host is this one.
func local(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// Open connects to the database and brings its tables to this release's version.
func Open(ctx context.Context, address string) (*Database, error) {
	c, err := Check(address)
	if err != nil {
		return nil, err
	}
	c.ConnectTimeout = dialWithin
	maps.Copy(c.RuntimeParams, map[string]string{
		"application_name": "cloister", "statement_timeout": within, "lock_timeout": within,
		"idle_in_transaction_session_timeout": within, "search_path": "public", "timezone": "UTC",
	})
	d := &Database{db: stdlib.OpenDB(*c), ctx: ctx}
	d.db.SetMaxOpenConns(maxConns)
	d.db.SetMaxIdleConns(maxConns)
	d.db.SetConnMaxIdleTime(time.Minute)
	if err := migrate(ctx, d.db); err != nil {
		return nil, errors.Join(err, d.db.Close())
	}
	return d, nil
}

// Close lets go of the database.
func (d *Database) Close() error { return d.db.Close() }

// Serve answers a client until its connection ends.
func (d *Database) Serve(conn io.ReadWriteCloser) error {
	s := rpc.NewServer()
	if err := s.RegisterName(database.Service, &methods{d}); err != nil {
		return err
	}
	s.ServeCodec(jsonrpc.NewServerCodec(conn))
	return nil
}

// methods are what a client may call.
type methods struct{ d *Database }

// A fault that a method's own words cause.
type fault struct{ database.Fault }

func (f *fault) Error() string { return f.Text }

func because(kind database.Kind, format string, args ...any) error {
	return &fault{database.Fault{Kind: kind, Text: fmt.Sprintf(format, args...)}}
}

// SQL states, as PostgreSQL's manual has them.
const (
	diskFull = "53100"
	readOnly = "25006"
	noTable  = "42P01"
)

// faultOf is an error as a client learns it.
func faultOf(err error) database.Fault {
	var own *fault
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return database.Fault{}
	case errors.As(err, &own):
		return own.Fault
	case errors.As(err, &pg) && pg.Code == diskFull:
		return database.Fault{Kind: database.IsAway, Text: "it is full: " + pg.Message}
	case errors.As(err, &pg) && pg.Code == readOnly:
		return database.Fault{Kind: database.IsAway, Text: "it takes no writes: " + pg.Message}
	case errors.As(err, &pg) && pg.Code == noTable:
		return database.Fault{Kind: database.IsAway, Text: "its tables are gone: " + pg.Message}
	}
	return database.Fault{Kind: database.IsAway, Text: err.Error()}
}

// in carries out one transaction. The version of the tables is looked at in each: a newer release
// may have come meanwhile.
func (m *methods) in(f func(context.Context, *sql.Tx) error) database.Fault {
	ctx, cancel := context.WithTimeout(m.d.ctx, 7*time.Second)
	defer cancel()
	tx, err := m.d.db.BeginTx(ctx, nil)
	if err != nil {
		return faultOf(err)
	}
	defer tx.Rollback() //nolint:errcheck // it was committed, or failed already
	version, err := versionOf(ctx, tx)
	if err == nil && version != database.Schema {
		err = because(database.IsNewer, "the database has tables of version %d by now, and this release knows %d: "+
			"use the release that made them", version, database.Schema)
	}
	if err == nil {
		err = f(ctx, tx)
	}
	if err == nil {
		err = tx.Commit()
	}
	return faultOf(err)
}

// Beat keeps a server's lease.
func (m *methods) Beat(in database.Beat, out *database.Beaten) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		lease := in.Lease.Seconds()
		if in.Join {
			if _, err := tx.ExecContext(ctx, `insert into cloister_servers
				(id, incarnation, address, lease_until, in_touch_since)
				values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4), clock_timestamp())
				on conflict (id) do update set incarnation = excluded.incarnation, address = excluded.address,
				lease_until = excluded.lease_until, in_touch_since = excluded.in_touch_since`,
				in.Place, in.Incarnation, in.Address, lease); err != nil {
				return err
			}
			out.Left = in.Lease
			return register(ctx, tx, in.Revision, &out.Register)
		}
		var left float64
		err := tx.QueryRowContext(ctx, `select extract(epoch from lease_until - clock_timestamp())
			from cloister_servers where id = $1 and incarnation = $2 for update`, in.Place, in.Incarnation).Scan(&left)
		if errors.Is(err, sql.ErrNoRows) {
			return because(database.IsLost, "another process answers as this server")
		}
		if err != nil {
			return err
		}
		out.Lapsed = left <= 0
		out.Left = time.Duration(left * float64(time.Second)) // what the database holds, and not more
		if left < lease*2/3 {
			if _, err := tx.ExecContext(ctx, `update cloister_servers set
				lease_until = clock_timestamp() + make_interval(secs => $2),
				in_touch_since = case when $3 then clock_timestamp() else in_touch_since end where id = $1`,
				in.Place, lease, out.Lapsed); err != nil {
				return err
			}
			out.Left = in.Lease
		}
		return register(ctx, tx, in.Revision, &out.Register)
	})
	return nil
}

// holds locks a server's row and refuses one whose lease is over, or that another process has.
func holds(ctx context.Context, tx *sql.Tx, s database.Server) error {
	var good bool
	err := tx.QueryRowContext(ctx, `select lease_until > clock_timestamp() from cloister_servers
		where id = $1 and incarnation = $2 for share`, s.Place, s.Incarnation).Scan(&good)
	if errors.Is(err, sql.ErrNoRows) {
		return because(database.IsLost, "another process answers as this server")
	}
	if err == nil && !good {
		return because(database.IsAway, "this server's lease is over")
	}
	return err
}

// Enter writes down a sandbox that is about to be made.
func (m *methods) Enter(in database.Write, out *database.Done) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		if err := holds(ctx, tx, in.Server); err != nil {
			return err
		}
		limits, err := limitsOf(ctx, tx, in.Tenant, in.Created)
		if err != nil {
			return err
		}
		var n int
		count := tx.QueryRowContext(ctx, "select count(*) from cloister_sandboxes where tenant = $1", in.Tenant)
		if err := count.Scan(&n); err != nil {
			return err
		}
		if n >= limits.Sandboxes {
			return because(database.IsOver, "the tenant has %d sandboxes, which is its limit", n)
		}
		_, err = tx.ExecContext(ctx, "insert into cloister_sandboxes (id, tenant, owner, record) values ($1, $2, $3, $4)",
			in.ID, in.Tenant, in.Place, string(in.Record))
		return err
	})
	return nil
}

// Note writes down what a sandbox is by now.
func (m *methods) Note(in database.Write, out *database.Done) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		if err := holds(ctx, tx, in.Server); err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, `update cloister_sandboxes set record = $4
			where id = $1 and owner = $2 and tenant = $3`,
			in.ID, in.Place, in.Tenant, string(in.Record))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(because(database.IsLost, "the sandbox is another server's, or over"), err)
		}
		return nil
	})
	return nil
}

// Leave strikes sandboxes that are over; one that is another's stays.
func (m *methods) Leave(in database.Struck, out *database.Done) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "delete from cloister_sandboxes where id = any($1) and owner = $2", in.IDs, in.Place)
		return err
	})
	return nil
}

// columns are those of a row.
const columns = "select id, tenant, owner, record, lost from cloister_sandboxes"

// Mine gives the rows of a server.
func (m *methods) Mine(in database.Ask, out *database.Rows) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) (err error) {
		out.Rows, err = rows(ctx, tx, columns+" where owner = $1", in.Place)
		return err
	})
	return nil
}

// List gives the rows of a tenant.
func (m *methods) List(in database.Ask, out *database.Rows) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) (err error) {
		out.Rows, err = rows(ctx, tx, columns+" where tenant = $1", in.Tenant)
		return err
	})
	return nil
}

// TakeOver gives one server the rows of all that are out of touch: of those that ask at once, one.
// A server takes over only after it was in touch for a whole lease itself, so that after the
// database was away no server loses what it had.
func (m *methods) TakeOver(in database.Ask, out *database.Rows) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		if err := holds(ctx, tx, in.Server); err != nil {
			return err
		}
		var ready bool
		if err := tx.QueryRowContext(ctx, `select in_touch_since < clock_timestamp() - make_interval(secs => $2)
			from cloister_servers where id = $1`, in.Place, in.Lease.Seconds()).Scan(&ready); err != nil || !ready {
			return err
		}
		var err error
		out.Rows, err = rows(ctx, tx, `with gone as (
				select id from cloister_servers where id <> $1 and lease_until < clock_timestamp()
				for update skip locked
			) update cloister_sandboxes s set owner = $1, lost = true from gone where s.owner = gone.id
			returning s.id, s.tenant, s.owner, s.record, s.lost`, in.Place)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `delete from cloister_servers v
			where lease_until < clock_timestamp() - interval '1 day'
			and not exists (select 1 from cloister_sandboxes s where s.owner = v.id)`)
		return err
	})
	return nil
}

// Find gives where a sandbox is.
func (m *methods) Find(in database.Ask, out *database.Where) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		var record []byte
		err := tx.QueryRowContext(ctx, `select s.id, s.tenant, s.owner, s.record, v.address,
			v.lease_until > clock_timestamp() from cloister_sandboxes s join cloister_servers v
			on v.id = s.owner where s.id = $1`, in.ID).
			Scan(&out.ID, &out.Tenant, &out.Owner, &record, &out.Address, &out.Alive)
		if errors.Is(err, sql.ErrNoRows) {
			return because(database.IsNone, "no server has it")
		}
		out.Record = record
		return err
	})
	return nil
}

func rows(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]database.Row, error) {
	list, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer list.Close() //nolint:errcheck // what was read is checked
	var out []database.Row
	for list.Next() {
		var r database.Row
		var record []byte
		if err := list.Scan(&r.ID, &r.Tenant, &r.Owner, &record, &r.Lost); err != nil {
			return nil, err
		}
		r.Record = record
		out = append(out, r)
	}
	return out, list.Err()
}
