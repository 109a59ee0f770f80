// Package records is the commands about the record: reading it, proving it, anchoring it.
//
// The promise: what cannot be proven is not called unbroken.
//
// It reads and verifies nothing itself: package audit does.
//
// Most readers want [Commands].
package records

import "cloister/cmd/cloister/cli"

// Commands are the commands of one invocation.
type Commands struct{ *cli.App }
