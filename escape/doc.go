// Package escape runs the corpus of attempts to get out of a cloister, on this
// host through the real command.
//
// It promises a verdict in four parts for each case (the answer to the attempt,
// the canaries of the host, the sinks on its network, the record of the
// guardian) with a positive control: the same attempt outside must succeed, or
// it proves nothing. With a binary of the build tag cloister_layeroff it also
// tells which case a second layer holds, which opens, and which could not be
// tried. It does not hold the cases, which are escape/corpus, and repairs
// nothing: a failing case is mended in the product. Most readers want Case.
//
// To add a case: a file in escape/corpus named after it (NW-26b is a neighbour of
// NW-26, in nw26b_what_linux.go), its function in All, and its row off the list
// of Missing. Then
//
//	script/test escape
//	ATTEMPTS='^NW-26b$' script/test layers
//
// The first tries all. The second, as root, leaves out one layer after another for
// the cases that match, and writes escape/testdata/holds-*.tsv, docs/attempts.md
// and the table in SECURITY.md, which a test compares (KINDS='gvisor user': on those levels). Name in Layers every layer
// without which the case opens; where the attempt itself needs a layer, say why
// in Needs. A server that a case attacks belongs into the World (secure_linux.go
// has those whose requests are read).
//
// To add a kind of cloister: its constant, its words and who starts it (enclosure_linux.go), and
// what it needs (script/check/kinds.go); then KINDS=NAME script/test columns tries all cases there. Where
// one has no meaning, say why in its Except; where an answer is other, have the case look at what came of it.
package escape
