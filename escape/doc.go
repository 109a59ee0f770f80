// Package escape runs the corpus of attempts to get out of a cloister, on this
// host through the real command.
//
// It promises a verdict in four parts for each case (the answer to the attempt,
// the canaries of the host, the sinks on its network, the record of the
// guardian) with a positive control: the same attempt outside must succeed, or
// it proves nothing. With a binary of the build tag cloister_layeroff it also
// tells which case a second layer holds. It does not hold the cases, which are
// escape/corpus, and repairs nothing: a failing case is mended in the product.
// Most readers want Case.
package escape
