// Package corpus holds the attempts themselves, one case in each file: what is
// tried, what must answer, what stops it, where it was seen.
//
// Each row of escape/testdata/cases.tsv that this kind of enclosure has to answer
// is here, or in missing_linux.go with what has to be built first; a test compares them.
// A letter after a number is a neighbour of that row. A case that fails is
// mended in the product, never here. Most readers want All.
package corpus
