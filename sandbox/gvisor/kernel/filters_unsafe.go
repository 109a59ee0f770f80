package main

import (
	_ "unsafe" // for go:linkname: gVisor's own build writes these variables, and exports none of the four

	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentryfilter "gvisor.dev/gvisor/runsc/boot/filter"
	sentry "gvisor.dev/gvisor/runsc/boot/filter/config"
	goferfilter "gvisor.dev/gvisor/runsc/fsgofer/filter"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

//go:linkname sentryPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var sentryPrograms map[string]precompiledseccomp.Program

//go:linkname goferPrograms gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var goferPrograms map[string]precompiledseccomp.Program

//go:linkname sentryRules gvisor.dev/gvisor/runsc/boot/filter/config.rules
func sentryRules(sentry.Options, precompiledseccomp.Values) (seccomp.SyscallRules, seccomp.SyscallRules)

//go:linkname goferRules gvisor.dev/gvisor/runsc/fsgofer/filter/config.rules
func goferRules(gofer.Options, precompiledseccomp.Values) (seccomp.SyscallRules, seccomp.SyscallRules)

// registerFilters puts the programs where gVisor looks for them. The two lists are asked for
// first, since the first question empties them.
func registerFilters(p partFilters) {
	sentryfilter.ListPrecompiled()
	goferfilter.ListPrecompiled()
	sentryPrograms, goferPrograms = p.Sentry, p.Gofer
}
