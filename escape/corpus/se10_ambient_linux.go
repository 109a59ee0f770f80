package corpus

import (
	"cloister/escape"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func se10() escape.Case {
	return escape.Case{
		ID: "SE-10", Class: "ambient credentials", Attack: "what of the person's is at hand: git's credential helper, agents' sockets, files of cloud tools, variables with tokens",
		Source: "SE-10", Layers: []string{"view", "environment"},
		Tries: func(in escape.Inside) []escape.Try {
			out := []escape.Try{
				on("git credential fill", func() error {
					return says("CANARY", "git", "-c", "credential.helper=store --file="+in.Home+"/.git-credentials", "credential", "fill")
				}),
				on("the socket of a helper", func() error { return talk("unix", in.Path, "list\n") }),
			}
			for _, name := range []string{"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "WAYLAND_DISPLAY"} {
				out = append(out, on("the variable "+name, func() error {
					if os.Getenv(name) == "" {
						return escape.ErrNothing
					}
					return nil
				}))
			}
			for _, name := range []string{".docker/config.json", ".config/gh/hosts.yml", ".config/gcloud/credentials.db", ".aws/credentials", ".npmrc", ".gnupg/private-keys-v1.d/key"} {
				out = append(out, on(name, func() error { return secrets(in.Home + "/" + name) }))
			}
			return out
		},
	}
}

// says runs a program with a question about git.example and looks for a word.
func says(word, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/true", "GIT_CONFIG_GLOBAL=/dev/null")
	c.Stdin = strings.NewReader("protocol=https\nhost=git.example\n\n")
	text, err := c.CombinedOutput()
	if strings.Contains(string(text), word) {
		return nil
	}
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return fmt.Errorf("the program cannot be run: %w", err)
	}
	return escape.ErrNothing
}
