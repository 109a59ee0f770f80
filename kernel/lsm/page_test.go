package lsm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const page = "../../docs/kernel-attempts.md"

const pageHead = `# What was tried against the kernel's judge

Written by ` + "`go test ./kernel/lsm -run TestPage`" + ` with ` + "`CLOISTER_WRITE_PAGE=1`" + `, from what guests with two of Debian's
kernels said (` + "`script/test lsm`" + `, [kernel-policy.md](kernel-policy.md)). Each attempt was made twice by a process of a session: with the
rule, and, as its control, without it. An attempt whose control does not come off fails the test.
`

// rowsOf are the lines of one kind in a report, by their second field.
func rowsOf(t *testing.T, name, kind string) (list [][]string, release string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if r, ok := strings.CutPrefix(fields[0], "# "); ok {
			release = r
		}
		if fields[0] == kind {
			list = append(list, fields[1:])
		}
	}
	return list, release
}

// attemptsTable has a line for each attempt and a column for each kernel.
func attemptsTable(t *testing.T) string {
	reports, err := filepath.Glob("testdata/guest-*.tsv")
	if err != nil || len(reports) != 2 {
		t.Fatalf("reports %q, %v", reports, err)
	}
	slices.Sort(reports)
	answers, controls := map[string]map[string]string{}, map[string]string{}
	var names, releases []string
	for _, report := range reports {
		rows, release := rowsOf(t, report, "row")
		releases = append(releases, release)
		for _, f := range rows {
			if answers[f[0]] == nil {
				answers[f[0]] = map[string]string{}
				names = append(names, f[0])
			}
			answer, _, _ := strings.Cut(f[1], " ")
			answers[f[0]][release] = answer
			if controls[f[0]] == "" || controls[f[0]] == "through" {
				controls[f[0]] = f[2]
			}
		}
	}
	out := ""
	for _, part := range []struct {
		title string
		in    func(name string) bool
	}{
		{"A rule that forbids it", func(n string) bool { return !isList(n) && !isGuard(n) }},
		{"A list that does not permit it", isList},
		{"A guarded session, whatever its rules", isGuard},
	} {
		out += "\n## " + part.title + "\n\n| attempt | " + strings.Join(releases, " | ") + " | without |\n|---|" + strings.Repeat("---|", len(releases)+1) + "\n"
		for _, name := range names {
			if !part.in(name) {
				continue
			}
			out += "| " + strings.TrimPrefix(name, "list: ")
			for _, release := range releases {
				out += " | " + answers[name][release]
			}
			out += " | " + controls[name] + " |\n"
		}
	}
	return out
}

// guardNames are the attempts at a guarded session.
var guardNames = []string{
	"trace another", "memory of another", "descriptor of another", "signal another", "become root", "a set-id program",
	"bpf", "a module's file", "a module", "perf", "a key", "the kernel's log", "the clock", "a namespace of users", "a ring",
	"a packet socket", "a raw socket", "the kernel's events",
}

func isList(name string) bool { return strings.HasPrefix(name, "list: ") }

func isGuard(name string) bool {
	return slices.ContainsFunc(guardNames, func(n string) bool { return n == name })
}

// costsTable has a line for each thing that was done and a column for each policy.
func costsTable(t *testing.T) string {
	reports, err := filepath.Glob("testdata/cost-*.tsv")
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, report := range reports {
		rows, release := rowsOf(t, report, "cost")
		out += "\n## What it costs, " + release + `

In an emulated guest whose time counts instructions (one is two nanoseconds), so that no other work of the machine is in it and only
one column beside the other means anything; caches and branches are not in it either. The repository has 20,000 files in 200 folders; the build is make, which looks at 40,000 files and assembles the 40
that changed.
` + "\n| | no programs loaded | a policy of programs alone | a policy of everything |\n|---|---|---|---|\n"
		byWhat := map[string]map[string]float64{}
		var order []string
		for _, f := range rows {
			var n float64
			if _, err := fmt.Sscan(f[2], &n); err != nil || n <= 0 {
				t.Fatalf("%s: %q", report, f)
			}
			if byWhat[f[1]] == nil {
				byWhat[f[1]] = map[string]float64{}
				order = append(order, f[1])
			}
			byWhat[f[1]][f[0]] = n
		}
		for _, what := range order {
			off := byWhat[what]["no programs"]
			out += fmt.Sprintf("| %s | %s", what, shown(off))
			for _, name := range []string{"a policy of programs alone", "a policy of everything"} {
				n := byWhat[what][name]
				out += fmt.Sprintf(" | %s (%+.1f %%)", shown(n), (n/off-1)*100)
			}
			out += " |\n"
		}
	}
	return out
}

// shown is a time in nanoseconds.
func shown(n float64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.1f µs", n/1e3)
	}
	return fmt.Sprintf("%.1f ms", n/1e6)
}

// The page is what the reports say.
func TestPage(t *testing.T) {
	want := pageHead + attemptsTable(t) + costsTable(t)
	if os.Getenv("CLOISTER_WRITE_PAGE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/kernel-attempts.md is not what kernel/lsm/testdata says: CLOISTER_WRITE_PAGE=1 go test ./kernel/lsm -run TestPage")
	}
}
