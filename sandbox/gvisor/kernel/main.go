// Command cloister-gvisor is the kernel of cloisters that are isolated by gVisor.
//
// It links of runsc what Cloister calls and nothing else: a box is made (box), one more
// command runs in it (more), and the rest are parts that runsc starts of itself. It is
// started inside the namespaces, the view and the network that sandbox/native built, and
// tells what comes of it on a pipe, line by line (package report of its caller).
//
// It builds no enclosure, decides nothing about policy, and is no runtime for containers.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
	"gvisor.dev/gvisor/runsc/version"
)

// Protocol is the version of what the driver and this program say to each other. It is
// the driver's too: sandbox/gvisor has the same number.
const Protocol = "4"

func main() {
	if len(os.Args) > 1 && (os.Args[1] == "version" || os.Args[1] == "--version") {
		fmt.Printf("cloister-gvisor %s gvisor %s\n", Protocol, pinned())
		return
	}
	giveFilters()
	giveForkIDs()
	cli.Run(nil, map[util.SubCommand]string{
		new(box):              "",
		new(more):             "",
		new(save):             "",
		new(filters):          "",
		new(sentrycmd.Boot):   "internal",
		new(cmd.Gofer):        "internal",
		new(sentrycmd.Umount): "internal",
	}, nil)
}

// pinned is the version of gVisor that this program is made of.
func pinned() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, m := range info.Deps {
			if m.Path == "gvisor.dev/gvisor" {
				return m.Version
			}
		}
	}
	return version.Version()
}
