// Package servertest holds servers to the same on files and on a database, and kills them at random moments.
//
// It has tests alone. The sessions are a double's, files in a folder that outlive the server as cloisters
// and pods do; the server, its door, the PostgreSQL and the kills are real.
//
// Most readers want TestStorm.
package servertest
