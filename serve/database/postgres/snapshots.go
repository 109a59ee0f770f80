package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"cloister/serve/database"
	"cloister/serve/tenants"
)

// columnsOfSnaps are those of a snapshot's row.
const columnsOfSnaps = "select id, tenant, since, sandbox, name, created, key, state, to_json(uses) " +
	"from cloister_snapshots"

// BeginSnapshot writes down a snapshot that is about to be made.
func (m *methods) BeginSnapshot(in database.SnapWrite, out *database.Snaps) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		if err := holds(ctx, tx, in.Server); err != nil {
			return err
		}
		limits, err := limitsOf(ctx, tx, in.Tenant, in.Since)
		if err != nil {
			return err
		}
		var n int
		if err := tx.QueryRowContext(ctx, `select count(*) from cloister_snapshots
			where tenant = $1 and since = $2 and (state = 'kept' or state = 'making' and owner in
			(select incarnation from cloister_servers where lease_until > clock_timestamp()))`,
			in.Tenant, in.Since).Scan(&n); err != nil {
			return err
		}
		if n >= limits.Snapshots {
			return because(database.IsOver, "the tenant has %d snapshots, which is its limit", n)
		}
		// What is about to be used is not struck meanwhile (SettleSnapshots), which the row itself says only from its commit.
		if _, err := tx.ExecContext(ctx, "lock table cloister_snapshots in row exclusive mode"); err != nil {
			return err
		}
		near := ` where tenant = $1 and since = $2 and key = $3 and state = 'kept' order by created desc, id limit $4`
		if err := snaps(ctx, tx, out, columnsOfSnaps+near, in.Tenant, in.Since, in.Key, in.Near); err != nil {
			return err
		}
		uses := []string{}
		for _, s := range out.Snaps {
			uses = append(uses, s.ID)
		}
		_, err = tx.ExecContext(ctx, `insert into cloister_snapshots
			(id, tenant, since, owner, state, sandbox, name, created, key, uses)
			values ($1, $2, $3, $4, 'making', $5, $6, $7, $8, $9)`,
			in.ID, in.Tenant, in.Since, in.Incarnation, in.Sandbox, in.Name, in.Created, in.Key, uses)
		return err
	})
	return nil
}

// limitsOf locks a tenant's row, which says what it may have.
func limitsOf(ctx context.Context, tx *sql.Tx, tenant string, created any) (limits tenants.Limits, err error) {
	var text []byte
	err = tx.QueryRowContext(ctx, "select limits from cloister_tenants where name = $1 and created = $2 for update",
		tenant, created).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return limits, because(database.IsNone, "the tenant was removed")
	}
	if err != nil {
		return limits, err
	}
	if err := json.Unmarshal(text, &limits); err != nil {
		return limits, fmt.Errorf("the limits of tenant %s: %w", tenant, err)
	}
	return limits, nil
}

// KeepSnapshot has one that this process began count.
func (m *methods) KeepSnapshot(in database.SnapWrite, out *database.Done) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		if err := holds(ctx, tx, in.Server); err != nil {
			return err
		}
		if in.Uses == nil {
			in.Uses = []string{}
		}
		r, err := tx.ExecContext(ctx, `update cloister_snapshots set state = 'kept', uses = $3
			where id = $1 and owner = $2 and state = 'making'`, in.ID, in.Incarnation, in.Uses)
		return one(r, err, database.IsLost, "the snapshot was given up meanwhile")
	})
	return nil
}

// DropSnapshot removes one.
func (m *methods) DropSnapshot(in database.SnapWrite, out *database.Done) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `update cloister_snapshots set state = 'removed'
			where id = $1 and tenant = $2 and since = $3 and state <> 'removed'`, in.ID, in.Tenant, in.Since)
		return one(r, err, database.IsNone, "there is no such snapshot")
	})
	return nil
}

// one wants a row to have been changed.
func one(r sql.Result, err error, kind database.Kind, text string) error {
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(because(kind, "%s", text), err)
	}
	return nil
}

// Snapshots gives those of a tenant.
func (m *methods) Snapshots(in database.SnapWrite, out *database.Snaps) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		return snaps(ctx, tx, out, columnsOfSnaps+` where tenant = $1 and since = $2 and state = 'kept'`,
			in.Tenant, in.Since)
	})
	return nil
}

// SettleSnapshots strikes what nothing needs. It waits for those that begin one just now, and they for it: a row that
// one of them is about to use is not struck.
func (m *methods) SettleSnapshots(in database.Ask, out *database.Snaps) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		if err := holds(ctx, tx, in.Server); err != nil {
			return err
		}
		for _, text := range []string{
			"lock table cloister_snapshots in share row exclusive mode",
			`update cloister_snapshots s set state = 'removed' where state = 'making' and not exists
				(select 1 from cloister_servers v where v.incarnation = s.owner and v.lease_until > clock_timestamp())`,
			`update cloister_snapshots s set state = 'removed' where state <> 'removed' and not exists
				(select 1 from cloister_tenants t where t.name = s.tenant and t.created = s.since)`,
			`delete from cloister_snapshots s where state = 'removed' and not exists
				(select 1 from cloister_snapshots u where u.state <> 'removed' and s.id = any(u.uses))`,
		} {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return snaps(ctx, tx, out, columnsOfSnaps)
	})
	return nil
}

// snaps reads rows, and the name of the cell.
func snaps(ctx context.Context, tx *sql.Tx, out *database.Snaps, query string, args ...any) error {
	if err := tx.QueryRowContext(ctx, "select cell from cloister_register").Scan(&out.Cell); err != nil {
		return err
	}
	list, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer list.Close() //nolint:errcheck // what was read is checked
	for list.Next() {
		var s database.Snap
		var uses []byte
		err := list.Scan(&s.ID, &s.Tenant, &s.Since, &s.Sandbox, &s.Name, &s.Created, &s.Key, &s.State, &uses)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(uses, &s.Uses); err != nil {
			return fmt.Errorf("what snapshot %s uses: %w", s.ID, err)
		}
		out.Snaps = append(out.Snaps, s)
	}
	return list.Err()
}
