// Package config reads what a person wrote in their configuration files.
//
// It promises one strict, frozen value: an unknown key, a wrong type, a value
// out of range is an error that names file, line and column and, where there
// is one, the nearest right key; every problem of a file is reported at once.
// What it accepts but nothing enforces yet comes back as a notice. A [Config]
// is not changed after it was read, so it may be shared.
//
// It does NOT judge destinations, compile policy or expand a tilde; it reads
// no environment, and it writes nothing.
//
// Most readers want [Load].
package config
