// Package secrets is the commands about secrets: what is kept, where it came from, where it may go.
//
// The promise: a value is never an argument, is not shown while it is typed, and goes to the guardian alone.
//
// It keeps nothing itself: the guardian has the vault (secret/vault).
//
// Most readers want [Commands].
package secrets

import (
	"cloister/cmd/cloister/cli"

	"github.com/spf13/cobra"
)

// Commands are the commands of one invocation.
type Commands struct{ *cli.App }

// Command is secret with its verbs.
func (a *Commands) Command() *cobra.Command {
	return cli.Group("secret", "Keep real credentials outside: cloisters get placeholders",
		a.secretSet(), a.secretLogin(), a.secretList(), a.secretShow(), a.secretRemove())
}
