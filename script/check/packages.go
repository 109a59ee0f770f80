package main

// independent are the packages whose tests give the same result whoever runs them, so
// that once is enough, with the reason. A test holds that none of them asks who it is,
// changes permissions or starts a process. Every other package is tested as root and as
// an ordinary user.
var independent = map[string]string{
	"agent":                   "texts",
	"approval":                "a queue in memory",
	"audit/flood":             "counts in memory",
	"devcontainer/demand":     "judges texts",
	"devcontainer/jsonc":      "a parser",
	"egress/internal/guard":   "judges addresses",
	"egress/internal/mint":    "makes certificates in memory",
	"egress/internal/names":   "a table in memory",
	"egress/internal/shell":   "SSH between connections in memory and on loopback",
	"egress/internal/rate":    "counts in memory",
	"egress/internal/wire":    "parsers",
	"egress/internal/errtext": "texts",
	"guardian/mcpservice":     "judges in memory",
	"internal/authority":      "a parser",
	"internal/fieldname":      "compares texts",
	"internal/linediff":       "compares texts",
	"internal/nearest":        "compares texts",
	"internal/reading":        "a parser",
	"internal/termsafe":       "a filter of bytes",
	"internal/urlpath":        "a parser",
	"internal/vscreen":        "draws in memory",
	"secret/oauth":            "a client of servers on loopback",
	"serve/connect":           "answers on loopback",
	"ui/tui":                  "draws in memory",
	"policy":                  "pure",
	"policy/suggest":          "pure",
	"sandbox/seccomp":         "a program for the kernel, simulated",
	"secret":                  "values in memory",
	"secret/sigv4":            "signs in memory",
	"secret/inject":           "edits requests in memory",
	"secret/inject/unpack":    "decodes in memory",
	"session/browsers":        "texts",
}

// aboveAll are the packages whose tests drive the whole product, and take longest: an
// ordinary user runs all of them. Root runs those of a pattern, where being root changes
// something, and all of them in the part root.
var aboveAll = map[string]string{
	"cmd/cloister": `^TestStories$/^(afterwards|approvals|attack_.*|bad_start|first_run|git|hostexec|hostexec_limits|` +
		`keys|limits|nested|no_home|overlay|project_trust|protected|start|time|unwritable|worktree)$`,
	"cmd/cloister/loadtest":  `^Test(DiskFull|GuardianMemory|KilledUnderLoad)$`,
	"cmd/cloister/realtest":  `^Test(ClaudeCode|GitOverHTTPS|GitOverSSH|HostView|PersonInTheLoop|ToolchainsOfTheHome)$`,
	"cmd/cloister/servetest": `^Test(Serve|Pause|Paths|Snapshot)$`,
	"cmd/cloister/webtest":   `^Test(AskIsAnswered|EveryPage)$`,
}
