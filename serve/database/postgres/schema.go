package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"cloister/serve/database"
)

// migrations are the steps from each version of the tables to the next. A step is never changed.
var migrations = [database.Schema]string{`
create table cloister_register (one boolean primary key default true check (one), revision bigint not null);
insert into cloister_register (revision) values (1);
create table cloister_tenants (
	name text primary key check (name ~ '^[a-z0-9][a-z0-9-]{0,31}$'),
	created timestamptz not null,
	limits jsonb not null
);
create table cloister_keys (
	id text primary key,
	tenant text not null references cloister_tenants on delete cascade,
	label text not null,
	scope text not null check (scope in ('all', 'read')),
	created timestamptz not null,
	expires timestamptz,
	digest text not null unique check (digest ~ '^[0-9a-f]{64}$')
);
create table cloister_servers (
	id text primary key,
	incarnation text not null,
	address text not null,
	lease_until timestamptz not null
);
create table cloister_sandboxes (
	id text primary key check (id ~ '^i[a-z0-9]{19}$'),
	tenant text not null,
	owner text not null references cloister_servers,
	record jsonb not null
);
create index on cloister_sandboxes (tenant);
create index on cloister_sandboxes (owner);
`, `
alter table cloister_tenants add column config text not null default '';
alter table cloister_servers add column in_touch_since timestamptz not null default now();
`, `
alter table cloister_sandboxes add column lost boolean not null default false;
`, `
alter table cloister_register add column cell text not null default gen_random_uuid()::text;
create table cloister_snapshots (
	id text primary key check (id ~ '^snap[a-z2-7]{16}$'),
	tenant text not null,
	since timestamptz not null,
	owner text not null,
	state text not null check (state in ('making', 'kept', 'removed')),
	sandbox text not null,
	name text not null,
	created timestamptz not null,
	key text not null,
	uses text[] not null
);
create index on cloister_snapshots (tenant);
`}

// lockOfSchema is the advisory lock of who changes the tables.
const lockOfSchema = 0x636c6f69

// migrate brings the tables to this release's version, one program at a time.
func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it was committed, or failed already
	var there bool
	if err := tx.QueryRowContext(ctx, "select to_regclass('cloister_schema') is not null").Scan(&there); err != nil {
		return err
	}
	if there { // a database that takes no writes can be read
		if version, err := versionOf(ctx, tx); err != nil || version == database.Schema {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "select pg_advisory_xact_lock($1)", lockOfSchema); err != nil {
		return err
	}
	const table = "create table if not exists cloister_schema " +
		"(one boolean primary key default true check (one), version int not null)"
	if _, err := tx.ExecContext(ctx, table); err != nil {
		return err
	}
	version, err := versionOf(ctx, tx)
	if err != nil {
		return err
	}
	if version > database.Schema {
		return &database.Newer{Why: fmt.Sprintf("the database has tables of version %d, and this release knows %d: "+
			"use the release that made them", version, database.Schema)}
	}
	for ; version < database.Schema; version++ {
		if _, err := tx.ExecContext(ctx, migrations[version]); err != nil {
			return fmt.Errorf("bring the tables to version %d: %w", version+1, err)
		}
	}
	if _, err := tx.ExecContext(ctx, `insert into cloister_schema (version) values ($1)
		on conflict (one) do update set version = $1`, version); err != nil {
		return err
	}
	return tx.Commit()
}

// querier is what a version is read with.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// versionOf is that of the tables, 0 for none.
func versionOf(ctx context.Context, q querier) (version int, err error) {
	err = q.QueryRowContext(ctx, "select coalesce(max(version), 0) from cloister_schema").Scan(&version)
	return version, err
}
