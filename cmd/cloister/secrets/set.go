package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/internal/noecho"
	"cloister/secret"
	"cloister/secret/vault"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// setWords are the flags of secret set.
type setWords struct {
	file, command, kind string
	refresh             time.Duration
}

func (a *Commands) secretSet() *cobra.Command {
	f := &setWords{}
	c := &cobra.Command{
		Use:   "set NAME [flags] [-- CMD ARG...]",
		Short: "Store a secret, or the command of this host that prints it",
		Long: "Store a secret in the vault. The value comes from a prompt, from standard input\n" +
			"where that is no terminal, from a file, or from a command of this host that is\n" +
			"run again when its answer is older than --refresh. A secret that is there\n" +
			"already is replaced, in running cloisters too.\n\n" +
			"With --kind aws it is an access key of Amazon's services: what \"aws configure\n" +
			"export-credentials\" prints, or the lines of a profile. It is never sent; requests\n" +
			"are signed with it.",
		Example: "  cloister secret set ANTHROPIC_API_KEY\n" +
			"  cloister secret set GITHUB_TOKEN --refresh 30m -- gh auth token\n" +
			"  pass show npm | cloister secret set NPM_TOKEN\n" +
			"  cloister secret set AWS --kind aws -- aws configure export-credentials",
		Args: func(cmd *cobra.Command, args []string) error { return checkSet(cmd, args, f) },
		RunE: func(cmd *cobra.Command, args []string) error { return a.setSecret(cmd.Context(), args[0], args[1:], f) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.Names(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().StringVar(&f.file, "file", "", "take the value from `FILE`")
	c.Flags().StringVar(&f.command, "command", "", "run `CMD`, such as \"gh auth token\", for the value")
	c.Flags().StringVar(&f.kind, "kind", "", "what it is, where it is no plain text: aws")
	_ = c.RegisterFlagCompletionFunc("kind",
		cobra.FixedCompletions([]string{string(secret.KindAWS)}, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().DurationVar(&f.refresh, "refresh", 0,
		fmt.Sprintf("how long a command's answer is kept (%s unless said)", vault.DefaultRefresh))
	return c
}

func checkSet(cmd *cobra.Command, args []string, f *setWords) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return cli.Usage("usage: "+cmd.UseLine(), "secret set: the name of the secret is missing")
	case len(args) > 1 && dash != 1:
		return cli.Usage("it is asked for, or read from standard input; a command stands behind --",
			"secret set: a value is never typed as an argument, where ps and the shell's history show it")
	}
	if err := vault.CheckName(args[0]); err != nil {
		return cli.Usage("such as GITHUB_TOKEN", "secret set: %v", err)
	}
	sources := 0
	for _, set := range []bool{f.file != "", f.command != "", len(args) > 1} {
		if set {
			sources++
		}
	}
	switch {
	case f.kind != "" && f.kind != string(secret.KindAWS):
		return cli.Usage("such as: cloister secret set "+args[0]+" --kind aws", "secret set: %q is no kind of secret",
			f.kind)
	case sources > 1:
		return cli.Usage("give one of --file, --command and -- CMD", "secret set: more than one source of the value")
	case f.refresh != 0 && f.command == "" && len(args) == 1:
		return cli.Usage("such as: cloister secret set "+args[0]+" --refresh 30m -- gh auth token",
			"secret set: --refresh is for a value that a command prints")
	case f.refresh != 0 && f.refresh < vault.MinRefresh:
		return cli.Usage("", "secret set: --refresh %s is shorter than %s", f.refresh, vault.MinRefresh)
	case strings.ContainsAny(f.command, `'"\$`+"`"):
		return cli.Usage("write it behind --, where your shell reads it: cloister secret set "+args[0]+" -- CMD ARG...",
			"secret set: --command is split at spaces and read by no shell")
	}
	return nil
}

func (a *Commands) setSecret(ctx context.Context, name string, argv []string, f *setWords) error {
	if f.command != "" {
		argv = strings.Fields(f.command)
	}
	set := api.SecretSet{Command: argv, RefreshMS: f.refresh.Milliseconds(), Kind: f.kind}
	if len(argv) == 0 {
		text, err := a.secretText(name, f)
		if err != nil {
			return err
		}
		if set.Value, err = Typed(secret.Kind(f.kind), text); err != nil {
			hint := "a secret is one line of text"
			if f.kind != "" {
				hint = "what aws configure export-credentials prints, or lines such as aws_access_key_id = AKIA..."
			}
			return cli.Usage(hint, "secret set %s: %v", name, err)
		}
	}
	c, err := a.Ensure(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.SetSecret(ctx, name, set); err != nil {
		return err
	}
	all, err := c.Secrets(ctx)
	if err == nil {
		a.Notice("kept in %s", all.Protection)
	}
	return err
}

// Typed is the value that a person gave, as the guardian takes it.
func Typed(kind secret.Kind, text string) (string, error) {
	value, err := vault.Read(kind, text)
	if err != nil {
		return "", err
	}
	return value.Reveal(), nil
}

// Text is the value of a secret that a person types, or that standard input has.
func (a *Commands) Text(name string) (string, error) { return a.secretText(name, &setWords{}) }

// secretText gets a value from where it was said to be.
func (a *Commands) secretText(name string, f *setWords) (string, error) {
	var from io.Reader = a.Stdin
	switch file := f.file; {
	case file != "":
		path, err := a.Tilde(file)
		if err == nil {
			path, err = a.Typed(path)
		}
		if err != nil {
			return "", cli.Usage("", "secret set %s: --file: %v", name, err)
		}
		opened, err := os.Open(path)
		if err != nil {
			return "", cli.Usage("", "secret set %s: --file: %v", name, err)
		}
		defer opened.Close()
		if info, err := opened.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			a.Notice("others may read %s too: chmod 600 %s, or remove it", file, file)
		}
		from = opened
	case term.IsTerminal(int(a.Stdin.Fd())) && f.kind != "":
		var lines []string
		fields := secret.AWSFields()
		for i, field := range fields {
			text, err := a.unseen(name, field, i < len(fields)-1)
			if err != nil {
				return "", err
			}
			if text != "" {
				lines = append(lines, field+" = "+text)
			}
		}
		return strings.Join(lines, "\n"), nil
	case term.IsTerminal(int(a.Stdin.Fd())):
		return a.unseen(name, name, false)
	}
	text, err := io.ReadAll(io.LimitReader(from, secret.MaxValue+3))
	if err != nil {
		return "", fmt.Errorf("secret set %s: read the value: %w", name, err)
	}
	return string(text), nil
}

// unseen is what a person typed, not shown.
func (a *Commands) unseen(name, prompt string, more bool) (string, error) {
	text, err := noecho.Line(a.Stdin, a.Stderr, prompt, more)
	stopped, interrupted := errors.AsType[*noecho.Interrupted](err)
	switch {
	case interrupted:
		stopped.Raise()
		return "", &cli.StatusError{Status: cli.StatusSignalBase + int(stopped.Signal)}
	case errors.Is(err, noecho.ErrLines):
		return "", cli.Usage("a secret is one line of text", "secret set %s: %v", name, err)
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("secret set %s: read the value: %w", name, err)
	}
	return text, nil
}
