package corpus

import (
	"context"
	"fmt"
	"os/exec"

	"cloister/escape"
)

func nw48() escape.Case {
	return escape.Case{
		ID: "NW-48", Class: "ssh and git protocols", Attack: "git over ssh:// and git://, raw ssh and rsync to names and addresses that no rule names",
		Source: "NW-48", Layers: []string{"net", "policy"}, Needs: gate(), Slow: 150,
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, addr := range []string{"github48.test:22", "203.0.113.48:22", "git48.test:9418", "203.0.113.48:9418", "rsync48.test:873", "allowed.test:22"} {
				out = append(out, net1("connect "+addr, func() error { return talk("tcp", to(in, addr), "SSH-2.0-escape\r\n") }))
			}
			for _, url := range []string{"ssh://git@203.0.113.49/x", "git://203.0.113.49/x", "http://203.0.113.49/x", "ext::sh -c 'touch pwned48'"} {
				out = append(out, escape.Try{Name: "git ls-remote " + url, Control: escape.ByNobody, Why: "nothing answers there outside either", Held: []error{escape.ErrNothing}, Do: func() error {
					ctx, cancel := context.WithTimeout(context.Background(), patience) //nolint:forbidigo // an attempt is a program of its own
					defer cancel()
					c := exec.CommandContext(ctx, "git", "ls-remote", url)
					text, err := c.CombinedOutput()
					if err == nil {
						return nil
					}
					if ctx.Err() != nil || len(text) == 0 {
						return fmt.Errorf("git: %w: %s", err, text)
					}
					return escape.ErrNothing
				}})
			}
			return out
		},
	}
}
