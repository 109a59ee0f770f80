// Package contained has the attempts on what an engine makes of a container: what it was told, and
// what an old one answers.
//
// Most readers want [Cases].
package contained

import "cloister/escape"

// Cases are the attempts.
func Cases() []escape.Case { return []escape.Case{spec(), old()} }
