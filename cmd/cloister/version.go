package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// released is the version of a release, which script/release sets.
var released string

// version is what the build knows of itself: a release's, a tag, or the commit that it
// was built from.
func version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  counted(0, 0),
		RunE: func(*cobra.Command, []string) error {
			a.line("cloister %s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
