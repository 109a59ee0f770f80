package main

import "strings"

// independent are the packages whose tests give the same result whoever runs them, so
// that once is enough, with the reason. A test holds that none of them asks who it is,
// changes permissions or starts a process. Every other package is tested as root and as
// an ordinary user.
var independent = eachOf(map[string]string{
	"a judge of texts or addresses": "devcontainer/demand egress/internal/guard guardian/mcpservice policy policy/filerule policy/suggest",
	"a parser": `devcontainer/compose devcontainer/jsonc egress/internal/wire internal/authority internal/exactjson
		internal/reading internal/urlpath policy/destination sandbox/docker/definition`,
	"a program for the kernel, simulated": "sandbox/seccomp",
	"connections on loopback":             "agent/probe audit/bucket audit/otlp egress/internal/dial egress/internal/shell secret/oauth serve/connect",
	"texts": `agent audit/ocsf egress/internal/errtext internal/fieldname internal/hint internal/linediff
		internal/nearest internal/source session/browsers session/ending session/heldpath state/merge`,
	"values in memory": `approval audit/flood egress/internal/ahead egress/internal/frames egress/internal/mint egress/internal/names
		egress/internal/quota egress/internal/rate internal/budget internal/stackroom internal/tenants internal/termsafe
		internal/vscreen secret secret/inject secret/inject/unpack secret/sigv4 state/sealed ui/tui ui/tui/moments ui/tui/pen`,
})

// eachOf turns reasons with their packages round.
func eachOf(reasons map[string]string) map[string]string {
	of := map[string]string{}
	for why, packages := range reasons {
		for pkg := range strings.FieldsSeq(packages) {
			of[pkg] = why
		}
	}
	return of
}

// onceEnough are further packages of which once is enough, though they start programs: as who
// started the checks.
var onceEnough = map[string]string{
	"":                        "reads the tree",
	"devcontainer/oracletest": "compares texts with those of a program, which root installs",
	"script/check":            "runs as who starts it, and its tests with it",
	"serve/snapshots":         "its database is an ordinary user's in any case, and servetest's servers are too",
	"script/check/typecheck":  "reads the tree",
}

// dependent are the tests that depend on the user, of packages where few do: an ordinary
// user runs these alone. A test holds that the others' files ask for no user.
var dependent = map[string]string{
	"egress": `^TestOriginalDestination$`,
}

// aboveAll are the packages whose tests drive the whole product, and take longest: an
// ordinary user runs all of them. Root runs those of a pattern, where being root changes
// something, and all of them in the part root.
var aboveAll = map[string]string{
	"cmd/cloister": `^TestStories$/^(afterwards|approvals|attack_.*|bad_start|first_run|git|hostexec|hostexec_limits|` +
		`keys|limits|nested|no_home|overlay|project_trust|protected|start|time|unwritable|user_level|worktree)$`,
	"cmd/cloister/loadtest":  `^Test(DiskFull|GuardianMemory|KilledUnderLoad|OutOfMemory)$`,
	"cmd/cloister/realtest":  `^Test(ClaudeCode|GitOverHTTPS|GitOverSSH|HostView|PersonInTheLoop|ToolchainsOfTheHome)$`,
	"cmd/cloister/servetest": `^Test(Serve|Pause|Paths|Replicas|Snapshot)$`,
	"cmd/cloister/webtest":   `^TestAskIsAnswered$`,
}
