// Package page writes what readers see of the corpus: docs/attempts.md, and the tables in
// SECURITY.md.
//
// It promises the same bytes for the same facts, which a test compares with what is kept. It
// tries nothing and judges nothing: what it tells was seen by package escape. Most readers
// want [Facts].
package page
