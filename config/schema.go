package config

import _ "embed" // of the schema

// schema is made from the types of this package: go generate ./config.
//
//go:generate go test -run ^TestSchema$ . -update
//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of config.yaml, for editors. It says
// less than Parse does: whether a domain is one, no schema can tell. It is not
// made here: the library for it would cost every start of the program 0.3 ms.
func Schema() []byte { return schema }
