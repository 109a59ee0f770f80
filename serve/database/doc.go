// Package database is what several servers of one fleet have in common, as each of them sees it.
//
// A [Client] speaks to the program that has the connection to the database (serve/database/postgres
// in cloister-fleet), by net/rpc with JSON on one socket. It keeps this server's lease, the register
// of tenants, and one [Row] of each sandbox: whose it is, which server has it, what a listing says.
//
// The promise: no row has what opens a sandbox, its variables or its files, so that who reads the
// database enters nothing; a row's server is one at each moment, and none that was out of touch for
// longer than its lease writes to it; where the database cannot be asked, the answer is an [Away],
// never a guess. Only the database's clock and this process's monotonic one are compared with
// themselves: two hosts may disagree about the time.
//
// Most readers want [Client.Enter].
package database
