package main

import (
	"cloister/cmd/cloister/cli"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

//go:generate env CLOISTER_WRITE_REFERENCE=1 go test -run ^TestReference$ -count=1 .

// TestReference holds docs/reference.md to the command tree, so that the page
// cannot say what the binary does not. go generate ./cmd/cloister writes it.
func TestReference(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "reference.md")
	got := reference(newRoot(&app{cli.App{Env: cli.Environ{}}}, ""))
	if os.Getenv("CLOISTER_WRITE_REFERENCE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/reference.md is not what the binary has; go generate ./cmd/cloister writes it (-page +binary):\n%s", diff)
	}
}

// TestReferenceTellsEveryCommand looks at the page from the other side: no
// command that a person can type is left out, and nothing hidden is in it.
func TestReferenceTellsEveryCommand(t *testing.T) {
	root := newRoot(&app{cli.App{Env: cli.Environ{}}}, "")
	page := reference(root)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		heading := "\n## " + c.CommandPath() + "\n"
		if told := strings.Contains(page, heading); told == c.Hidden {
			t.Errorf("%s: in the page: %v, hidden: %v", c.CommandPath(), told, c.Hidden)
		}
		if !c.Hidden {
			for _, sub := range c.Commands() {
				walk(sub)
			}
		}
	}
	walk(root)
}

// reference is the page: every command that a person can type, in the order of
// the tree, with its flags in the words of --help.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command reference\n\n" +
		"Written from the command tree by `go generate ./cmd/cloister`; a test compares them. Do not edit.\n\n" +
		"Every command also takes:\n\n```\n" + strings.TrimRight(root.PersistentFlags().FlagUsages(), "\n") + "\n  -h, --help    help for the command\n```\n\n" +
		"## Exit status\n\n| status | means |\n|---|---|\n")
	for _, row := range []struct {
		status int
		means  string
	}{
		{cli.StatusDone, "done"},
		{cli.StatusFailed, "the operation failed"},
		{cli.StatusWords, "the words typed are wrong"},
		{cli.StatusUnbuilt, "`run`: the enclosure could not be built"},
		{cli.StatusExecute, "`run`, `exec`: the command cannot be executed"},
		{cli.StatusNotFound, "`run`, `exec`: the command was not found"},
	} {
		fmt.Fprintf(&b, "| %d | %s |\n", row.status, row.means)
	}
	fmt.Fprintf(&b, "\n`run` and `exec` end with the status of the command they ran; %d+n when signal n ended it.\n", cli.StatusSignalBase)
	describe(&b, root)
	return b.String()
}

func describe(b *strings.Builder, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	usage := c.UseLine()
	switch {
	case c.Annotations[cli.TakesNames] != "", c.Annotations[cli.ActsAlone] != "":
		usage += "\n" + c.CommandPath() + " COMMAND"
	case c.HasSubCommands():
		usage = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n```\n%s\n```\n", c.CommandPath(), text, usage)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(b, "\nAlso: `%s`.\n", strings.Join(c.Aliases, "`, `"))
	}
	if c.HasExample() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.Example)
	}
	flags := c.LocalNonPersistentFlags()
	if help := flags.Lookup("help"); help != nil {
		help.Hidden = true // said once, at the top
	}
	if usages := strings.TrimRight(flags.FlagUsages(), "\n"); usages != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", usages)
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			describe(b, sub)
		}
	}
}

// TestNouns holds each command to the word that opens it: a wrong one would be
// another command's, or none.
func TestNouns(t *testing.T) {
	for _, d := range nouns() {
		root := newRoot(&app{cli.App{Env: cli.Environ{}}}, d.name)
		if got := root.Commands(); len(got) != 1 || got[0].Name() != d.name {
			t.Errorf("%s opens %v", d.name, got)
		}
	}
}
