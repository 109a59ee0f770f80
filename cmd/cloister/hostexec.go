package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/hostexec"
	"cloister/sandbox"

	"github.com/spf13/cobra"
)

// hostexecName is what this program is called inside a cloister, where it does
// nothing but ask for a command on the host.
const hostexecName = "hostexec"

// gateAddress is where the gate is for a program inside.
const gateAddress = "198.18.0.1"

// callHost is hostexec CMD [ARG...].
func callHost(ctx context.Context, argv []string) int {
	const usage = "usage: hostexec CMD [ARG...]\nRun a command on the host, if a rule or a person allows exactly that."
	switch {
	case len(argv) == 0:
		fmt.Fprintln(os.Stderr, usage)
		return cli.StatusWords
	case argv[0] == "--help" || argv[0] == "-h":
		fmt.Fprintln(os.Stdout, usage)
		return cli.StatusDone
	case len(argv) > 1 && argv[0] == "git" && slices.Contains(gitVerbs, argv[1]):
		return gitInside(argv[1:])
	}
	return callGate(ctx, argv, nil)
}

// callGate asks the guardian; said is what was typed where that is not argv.
func callGate(ctx context.Context, argv, said []string) int {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintf(os.Stderr, "hostexec: %v\n", err)
		return cli.StatusUnbuilt
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2)
	c := &hostexec.Caller{
		Gate: net.JoinHostPort(gateAddress, strconv.Itoa(hostexec.Port)), Dir: dir,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals, Said: said,
	}
	return c.Call(ctx, argv)
}

// hostCaller is the program that is shown inside as hostexec, where a rule could let
// something run or an agent asks for checkpoints; "" costs nothing.
func (a *app) hostCaller(cfg *config.Config, f *runFlags) sandbox.HostPath {
	calls := cfg.Hostexec.Any() || f.kept != nil || f.Workspace == string(config.WorkspaceGit)
	if !calls || f.NoNetwork || f.Workspace == "none" {
		return ""
	}
	exe, err := os.Executable()
	if err != nil {
		return "" // hostexec is then not found inside, which refuses
	}
	return sandbox.HostPath(exe)
}

// gitEnv is the environment of git where it speaks with a remote: besides what a
// host command gets, where the person's credentials are, and their way out.
func (a *app) gitEnv(hostEnv []string) []string {
	env := slices.DeleteFunc(slices.Clone(hostEnv), func(e string) bool {
		return strings.HasPrefix(e, "CLOISTER_") || strings.HasPrefix(e, "LANG=")
	})
	for _, key := range []string{
		"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO",
		"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	} {
		if v := a.Env.Get(key); v != "" {
			env = append(env, key+"="+v)
		}
	}
	return env
}

// shimOf is the program that this process stands for inside, "" for none.
func shimOf(name string) string {
	if exe, err := os.Readlink("/proc/self/exe"); err != nil || filepath.Base(exe) != hostexecName {
		return ""
	}
	return name
}

// guardianKeep is the helper of one host command.
func guardianKeep() *cobra.Command {
	return &cobra.Command{
		Use: "keep", Hidden: true, Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error { return hostexec.Keep() },
	}
}

// helper is the program that the guardian runs for each host command, and the
// environment that the command gets: what a login would give it, and no token.
func (a *app) helper() (argv, env []string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program: %w", err)
	}
	env = []string{"CLOISTER_HOSTEXEC=1", "TERM=dumb", "SHELL=/bin/sh"}
	for _, key := range []string{"HOME", "LANG", "PATH", "TZ"} {
		if v := a.Env.Get(key); v != "" {
			env = append(env, key+"="+v)
		}
	}
	if u, err := user.LookupId(strconv.Itoa(a.UID)); err == nil {
		env = append(env, "LOGNAME="+u.Username, "USER="+u.Username)
	}
	return []string{exe, "guardian", "keep"}, env, nil
}
