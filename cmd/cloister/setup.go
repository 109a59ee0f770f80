package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/agent"
	"cloister/api"
	"cloister/api/client"
	"cloister/config"
	"cloister/internal/durable"
	"cloister/internal/nearest"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) setupCommand() *cobra.Command {
	var with string
	c := &cobra.Command{
		Use:   "setup AGENT",
		Short: "Give an agent the credential that it needs, and keep it outside",
		Long: `Store an agent's API key or token in the vault, and bind it in config.yaml to the
one host that it is for: a cloister gets a placeholder. The credential is asked
for, or read from standard input where that is no terminal.`,
		Example: "  cloister setup claude\n" +
			"  cloister setup claude --with token <token-file",
		Args: counted(1, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return agent.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.setup(cmd.Context(), args[0], with) },
	}
	c.Flags().StringVar(&with, "with", "", "what it logs in with: `key`, or token where it knows one")
	_ = c.RegisterFlagCompletionFunc("with", cobra.FixedCompletions([]string{"key", "token"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) setup(ctx context.Context, name, with string) error {
	who := agent.Find(name)
	if len(who.Logins) == 0 {
		hint := "there are: " + strings.Join(agent.Names(), ", ") + "; for another: cloister secret set NAME, and secrets: in config.yaml"
		if near := nearest.Word(name, agent.Names()); near != "" {
			hint = "did you mean cloister setup " + near + "?"
		}
		return wrongWords(hint, "setup: %q is no agent that is known", name)
	}
	var words []string
	for _, l := range who.Logins {
		words = append(words, l.Word)
	}
	at := slices.Index(words, cmp.Or(with, words[0]))
	if at < 0 {
		return wrongWords("one of: "+strings.Join(words, ", "), "setup %s: --with %q is not known", name, with)
	}
	login := who.Logins[at]
	if err := a.storeLogin(ctx, name, login); err != nil {
		return err
	}
	if err := a.bindLogin(ctx, login); err != nil {
		return err
	}
	a.line("%s: %s goes to %s, in the header %s; inside there is a placeholder", name, login.Secret, login.Host, login.Header)
	if !a.onPath(who.Argv[0]) {
		a.notice("%s is not installed: %s", who.Argv[0], who.Install)
	}
	a.notice("hint: cloister %s", name)
	return nil
}

// storeLogin puts the credential into the vault. One that is there is replaced
// where the person says so, or where nobody can be asked.
func (a *app) storeLogin(ctx context.Context, name string, login agent.Login) error {
	asks := term.IsTerminal(int(a.stdin.Fd()))
	return a.withVault(ctx, func(c *client.Client, all api.Secrets) error {
		there := slices.ContainsFunc(all.Secrets, func(s api.Secret) bool { return s.Name == login.Secret && s.Source != api.SecretMissing })
		if there && asks {
			fmt.Fprintf(a.stderr, "%s is in the vault; replace it? [y/N] ", login.Secret)
			answer, _ := bufio.NewReader(a.stdin).ReadString('\n')
			if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
				return nil
			}
		}
		if asks {
			a.notice("%s", login.Get)
		}
		text, err := a.secretText(login.Secret, &setWords{})
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" && there && !asks {
			return nil // nothing was given, and nothing is missing
		}
		value, err := typed("", text)
		if err != nil {
			return wrongWords("give it on standard input: cloister setup "+name+" <FILE; "+login.Get, "setup %s: %s: %v", name, login.Secret, err)
		}
		if _, err := c.SetSecret(ctx, login.Secret, api.SecretSet{Value: value}); err != nil {
			return err
		}
		a.notice("kept in %s", all.Protection)
		return nil
	})
}

func (a *app) withVault(ctx context.Context, do func(*client.Client, api.Secrets) error) error {
	c, err := a.ensure(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.Secrets(ctx)
	if err != nil {
		return err
	}
	return do(c, all)
}

// bindLogin writes where the credential may go into config.yaml, unless that says
// so already, and puts it in force.
func (a *app) bindLogin(ctx context.Context, login agent.Login) error {
	cfg, _, err := a.load()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(cfg.Secrets, func(s config.Secret) bool { return s.Name == login.Secret }) {
		return nil
	}
	d, err := a.dirs()
	if err != nil {
		return err
	}
	file := filepath.Join(d.Config, "config.yaml")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(starter), os.MkdirAll(d.Config, 0o700)
	}
	if err == nil {
		text, err = config.WithSecret(text, config.Secret{Name: login.Secret, Hosts: []string{login.Host}, Header: login.Header, Format: login.Format})
	}
	if err == nil {
		_, err = config.Parse(file, text)
	}
	if err != nil {
		return hinted(fmt.Errorf("bind %s: %w", login.Secret, err), "write it yourself: cloister config edit")
	}
	// A link that a person made, into a repository of their settings, stays one.
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if err := durable.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("bind %s: %w", login.Secret, err)
	}
	a.notice("%s: secrets has a line more", file)
	return a.withGuardian(ctx, func(c *client.Client) error {
		_, err := c.Reload(ctx)
		return err
	})
}

// onPath reports whether the person's PATH has a program.
func (a *app) onPath(program string) bool {
	for _, dir := range filepath.SplitList(a.env.get("PATH")) {
		if fi, err := os.Stat(filepath.Join(dir, program)); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
