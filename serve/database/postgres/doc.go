// Package postgres keeps in a PostgreSQL database what several servers have in common.
//
// [Open] connects and brings the tables to this release's version; [Database] has the methods that a
// database.Client calls, and [Serve] answers them on one connection.
//
// The promise: each method is one transaction; a sandbox has one server at each moment, because only
// a server whose lease holds writes, under a lock of its own row, and a lease that is over is taken
// by one other; a tenant's sandboxes are counted under a lock of the tenant's row; times are those of
// the database's clock; tables of a newer release are refused. It sends no password in the clear
// beyond this host, and knows no key, no token and no file of a sandbox.
//
// Most readers want [Open].
package postgres
