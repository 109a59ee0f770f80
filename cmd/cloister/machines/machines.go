// Package machines is the command about machines, and the driver of those that it sets up.
//
// The promise: what a machine is booted from is a distribution's kernel that apt verified, that
// lies in /boot, or that the person named; its digest is written down, and every start holds the
// files to it. KVM is used once a guest has booted with it here.
//
// It boots no machine itself: sandbox/microvm does. Most readers want [Command] and [Driver].
package machines

import (
	"github.com/spf13/cobra"

	"cloister/cmd/cloister/cli"
)

// Level is the word of --isolation.
const Level = "microvm"

// words are those that setup microvm was given.
type words struct{ kernel, modules string }

// Command is setup microvm.
func Command(a *cli.App) *cobra.Command {
	w := &words{}
	c := &cobra.Command{
		Use:   Level,
		Short: "Install the kernel of --isolation microvm, and try a machine",
		Long: `Install the kernel of the guests of --isolation microvm, and boot one (docs/microvm.md).
The kernel is the one of --kernel, else the newest of /boot that can be read, else the one
of your distribution's package for virtual machines, which apt fetches and verifies: nothing
is installed on this machine. Its digest, and those of the modules that a guest needs, are
written down; each start holds the files to them. A guest is booted with KVM where there is
/dev/kvm, and what came of it is kept; as it stands before a session it is a template, from
which machines begin without booting. It needs QEMU and virtiofsd, and no root.`,
		Example: "  cloister setup microvm\n" +
			"  cloister setup microvm --kernel /boot/vmlinuz-6.12.0-cloud-amd64 --modules /lib/modules/6.12.0-cloud-amd64",
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return setup(cmd.Context(), a, w) },
	}
	fl := c.Flags()
	fl.StringVar(&w.kernel, "kernel", "", "the `FILE` of a Linux kernel, instead of one that is found or fetched")
	fl.StringVar(&w.modules, "modules", "", "the `FOLDER` of its modules, instead of /lib/modules/RELEASE")
	return c
}
