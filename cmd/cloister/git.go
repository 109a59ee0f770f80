package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"cloister/cmd/cloister/cli"
	"cloister/hostexec"
)

// gitHelperName is what git inside calls for remotes that the guardian speaks
// with (gitremote-helpers(7)).
const gitHelperName = "git-remote-cloister"

// gitVerbs are what of git goes by way of the guardian.
var gitVerbs = []string{"push", "fetch", "pull", "ls-remote", "clone"}

// saidKey is where the helper finds what was typed.
const saidKey = "CLOISTER_GIT_SAID"

// gitInside is `hostexec git push` and the like: git itself, inside, with every
// remote reached by way of the guardian.
func gitInside(argv []string) int {
	path, err := exec.LookPath("git")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostexec: there is no git inside; the guardian's only carries what git inside sends")
		return cli.StatusNotFound
	}
	words := append([]string{"git", "-c", "url.cloister::.insteadOf="}, argv...)
	env := append(os.Environ(), saidKey+"="+strings.Join(append([]string{"git"}, argv...), "\x1f"))
	err = syscall.Exec(path, words, env)
	fmt.Fprintf(os.Stderr, "hostexec: execute %s: %v\n", path, err)
	return cli.StatusExecute
}

// gitHelper is git-remote-cloister NAME URL: it gives git a conversation with the
// guardian instead of one with the remote.
func gitHelper(ctx context.Context, argv []string) int {
	if len(argv) != 2 {
		fmt.Fprintln(os.Stderr, "usage: git-remote-cloister NAME URL (git calls it)")
		return cli.StatusWords
	}
	var said []string
	if text := os.Getenv(saidKey); text != "" {
		said = strings.Split(text, "\x1f")
	}
	for {
		line, err := readLine(os.Stdin)
		if err != nil || line == "" {
			return cli.StatusDone
		}
		service, ok := strings.CutPrefix(line, "connect ")
		switch {
		case line == "capabilities":
			fmt.Fprint(os.Stdout, "connect\n\n")
		case ok && (service == hostexec.GitFetch || service == hostexec.GitPush):
			fmt.Fprint(os.Stdout, "\n")
			return callGate(ctx, []string{service, argv[1]}, said)
		default:
			fmt.Fprintf(os.Stderr, "git-remote-cloister: git asks for %q, which goes by no guardian\n", line)
			return cli.StatusWords
		}
	}
}

// readLine reads one line, and no byte behind it: the rest is the conversation's.
func readLine(f *os.File) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := f.Read(one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return string(line), nil
		}
		if line = append(line, one[0]); len(line) > 4096 {
			return "", fmt.Errorf("git sends more than a line")
		}
	}
}
