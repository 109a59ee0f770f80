package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"cloister/serve/database"
	"cloister/serve/tenants"
)

// Register gives the register where it is another than that of a revision.
func (m *methods) Register(in database.Ask, out *database.Registered) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		return register(ctx, tx, in.Revision, &out.Register)
	})
	return nil
}

// register reads the register where it is another than that of a revision. The lock keeps its
// revision and its rows of one moment.
func register(ctx context.Context, tx *sql.Tx, has int64, out *database.Register) error {
	const revision = "select revision from cloister_register"
	err := tx.QueryRowContext(ctx, revision).Scan(&out.Revision)
	if err != nil || out.Revision == has {
		return err
	}
	if err := tx.QueryRowContext(ctx, revision+" for share").Scan(&out.Revision); err != nil {
		return err
	}
	t, err := tableOf(ctx, tx)
	out.Table = &t
	return err
}

func tableOf(ctx context.Context, tx *sql.Tx) (tenants.Table, error) {
	t := tenants.Table{Version: 1}
	list, err := tx.QueryContext(ctx, "select name, created, limits, config from cloister_tenants order by name")
	if err != nil {
		return t, err
	}
	defer list.Close() //nolint:errcheck // what was read is checked
	for list.Next() {
		var one tenants.Tenant
		var limits []byte
		if err := list.Scan(&one.Name, &one.Created, &limits, &one.Config); err != nil {
			return t, err
		}
		if err := json.Unmarshal(limits, &one.Limits); err != nil {
			return t, fmt.Errorf("the limits of tenant %s: %w", one.Name, err)
		}
		one.Created = one.Created.UTC()
		t.Tenants = append(t.Tenants, one)
	}
	if err := list.Err(); err != nil {
		return t, err
	}
	keys, err := tx.QueryContext(ctx, `select id, tenant, label, scope, created, expires, digest
		from cloister_keys order by id`)
	if err != nil {
		return t, err
	}
	defer keys.Close() //nolint:errcheck // what was read is checked
	for keys.Next() {
		var k tenants.Key
		var expires sql.NullTime
		if err := keys.Scan(&k.ID, &k.Tenant, &k.Label, &k.Scope, &k.Created, &expires, &k.Digest); err != nil {
			return t, err
		}
		k.Created = k.Created.UTC()
		if expires.Valid {
			k.Expires = expires.Time.UTC()
		}
		t.Keys = append(t.Keys, k)
	}
	return t, keys.Err()
}

// Replace replaces the register of a revision by another.
func (m *methods) Replace(in database.Change, out *database.Done) error {
	out.Fault = m.in(func(ctx context.Context, tx *sql.Tx) error {
		var revision int64
		if err := tx.QueryRowContext(ctx, "select revision from cloister_register for update").Scan(&revision); err != nil {
			return err
		}
		if revision != in.Revision {
			return because(database.IsOther, "the register was changed meanwhile")
		}
		was, err := tableOf(ctx, tx)
		if err == nil {
			err = change(ctx, tx, was, in.Table)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "update cloister_register set revision = revision + 1")
		}
		return err
	})
	return nil
}

// change writes what of the register is another. A tenant that was made anew under its old name is
// another one: the keys of the old one go with it.
func change(ctx context.Context, tx *sql.Tx, was, now tenants.Table) error {
	do := func(query string, args ...any) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}
	for _, t := range was.Tenants {
		if !slices.ContainsFunc(now.Tenants, func(n tenants.Tenant) bool {
			return n.Name == t.Name && n.Created.Equal(t.Created)
		}) {
			if err := do("delete from cloister_tenants where name = $1", t.Name); err != nil {
				return err
			}
		}
	}
	for _, k := range was.Keys {
		if !slices.ContainsFunc(now.Keys, func(n tenants.Key) bool { return n.ID == k.ID }) {
			if err := do("delete from cloister_keys where id = $1", k.ID); err != nil {
				return err
			}
		}
	}
	for _, t := range now.Tenants {
		limits, err := json.Marshal(t.Limits)
		if err != nil {
			return err
		}
		if slices.Contains(was.Tenants, t) {
			continue
		}
		if err := do(`insert into cloister_tenants (name, created, limits, config) values ($1, $2, $3, $4)
			on conflict (name) do update set limits = excluded.limits, config = excluded.config`,
			t.Name, t.Created, string(limits), t.Config); err != nil {
			return err
		}
	}
	for _, k := range now.Keys {
		if slices.ContainsFunc(was.Keys, func(o tenants.Key) bool { return o.ID == k.ID }) {
			continue // a key is never changed
		}
		expires := sql.NullTime{Time: k.Expires, Valid: !k.Expires.IsZero()}
		if err := do(`insert into cloister_keys (id, tenant, label, scope, created, expires, digest)
			values ($1, $2, $3, $4, $5, $6, $7)`,
			k.ID, k.Tenant, k.Label, string(k.Scope), k.Created, expires, k.Digest); err != nil {
			return err
		}
	}
	return nil
}
