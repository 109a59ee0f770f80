// Package overlays is the commands about overlay workspaces: what a cloister of this kind
// changed, and what a person makes of it.
//
// The promise: nothing of a workspace reaches a project but by an apply, and each act is
// recorded before it is done.
//
// It compares and changes nothing itself: session/kept and the rooms of state do.
//
// Most readers want [Commands].
package overlays

import (
	"context"
	"os"

	"cloister/cmd/cloister/cli"
	"cloister/sandbox"
	"cloister/session/launch"
)

// Commands are the commands of one invocation.
type Commands struct {
	*cli.App
	// Hold holds a cloister of an isolation level still, until thaw.
	Hold func(isolation string, h sandbox.Handle) (thaw func() error, err error)
	// Driver is that of an isolation level, and Detach starts a cloister in the background and
	// passes it files.
	Driver func(isolation string) (sandbox.Driver, error)
	Detach func(context.Context, launch.Order, ...*os.File) (launch.Answer, error)
	// Watch shows the page of time of a workspace, "" for all of them, on the whole screen.
	Watch func(ctx context.Context, name string) error
}
