package postgres

// VersionOne makes the tables of the first version.
var VersionOne = migrations[0] + `
create table cloister_schema (one boolean primary key default true check (one), version int not null);
insert into cloister_schema (version) values (1);
`
