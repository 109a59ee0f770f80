// Package main is the cloister command: the words a person types, one file for
// each noun.
//
// It promises that stdout carries the answer and nothing else, that an error is
// one line with hints under it, and that the exit status is what the table in
// errors.go says. The environment is read here, once; contexts begin here.
//
// It does not decide, enclose or record anything: the rooms below do.
//
// Most readers want newRoot.
package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"syscall"

	"cloister/agent/probe"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/machines"
	"cloister/devcontainer/pull"
	"cloister/git/checkout"
	"cloister/internal/sigquit"
	"cloister/internal/stackroom"
	"cloister/sandbox/docker/inside"
	"cloister/sandbox/kubernetes/pod"
	"cloister/sandbox/localuser"
	"cloister/sandbox/native"
)

func main() {
	_ = sigquit.Plain() // else it is Go's, which prints where it was
	switch name := filepath.Base(os.Args[0]); name {
	case "cloister":
	case pod.Name:
		os.Exit(pod.Main(context.Background(), os.Args[1:], os.Getenv))
	case inside.Name:
		os.Exit(inside.Main(os.Args[1:]))
	case hostexecName:
		os.Exit(callHost(context.Background(), os.Args[1:]))
	case checkout.Name:
		os.Exit(checkout.Main(context.Background(), os.Args[1:], os.Environ()))
	case gitHelperName:
		os.Exit(gitHelper(context.Background(), os.Args[1:]))
	default:
		if code, is := machines.Inside(context.Background(), name, os.Args[1:]); is {
			os.Exit(code)
		}
		if shim := shimOf(name); shim != "" {
			os.Exit(callGate(context.Background(), append([]string{shim}, os.Args[1:]...), nil))
		}
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case probe.Name:
			os.Exit(probe.Main(context.Background(), os.Args[2:], os.Getenv, os.Stdout))
		case pull.Name:
			os.Exit(pull.Main(context.Background(), os.Args[2:], os.Stdout))
		case native.OwnerName:
			os.Exit(native.Main(context.Background(), os.Args[2:]))
		case localuser.HelperName:
			os.Exit(localuser.HelperMain(context.Background(), os.Args[2:], os.Stderr))
		case localuser.OwnerName:
			os.Exit(localuser.Main(context.Background(), os.Args[2:], cli.Version()))
		}
	}
	syscall.Umask(syscall.Umask(0) &^ 0o700) // what it makes it can open again
	a := &app{cli.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, UID: os.Getuid(),
		Out: bufio.NewWriter(os.Stdout), Env: cli.NewEnviron(os.Environ()),
	}}
	code := 0
	stackroom.For(func() { code = a.main(context.Background(), os.Args[1:]) })
	os.Exit(code)
}
