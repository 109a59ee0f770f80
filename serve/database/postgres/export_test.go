package postgres

import "cloister/serve/database"

// Beat keeps a lease, without a client.
func (d *Database) Beat(in database.Beat) (out database.Beaten) {
	_ = (&methods{d}).Beat(in, &out) // its fault is in the answer
	return out
}

// VersionOne makes the tables of the first version.
var VersionOne = migrations[0] + `
create table cloister_schema (one boolean primary key default true check (one), version int not null);
insert into cloister_schema (version) values (1);
`
