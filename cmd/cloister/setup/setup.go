// Package setup is the command that gets an agent ready, or a level of isolation that needs
// something installed.
//
// The promise: a credential goes into the vault and nowhere else, config.yaml stays as it was
// where it cannot be changed without a doubt, and nothing is installed without the person's word.
//
// It stores and binds nothing by itself: the guardian has the vault, and package config knows
// how its files are written.
//
// Most readers want [Commands].
package setup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/agent"
	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/machines"
	"cloister/cmd/cloister/pods"
	"cloister/cmd/cloister/secrets"
	"cloister/config"
	"cloister/config/edit"
	"cloister/internal/durable"
	"cloister/internal/nearest"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Commands are the commands of one invocation.
type Commands struct {
	*cli.App
	Secrets *secrets.Commands
}

// flags are the flags of setup, as typed.
type flags struct {
	with, from     string
	install, noTry bool
	undo           bool
}

// withLogin is the word of --with for a subscription, by a browser.
const withLogin = "login"

// Command is setup.
func (a *Commands) Command() *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use:         "setup [AGENT|gvisor|local-user [ACCOUNT...]]",
		Annotations: map[string]string{cli.TakesNames: "yes"},
		Short:       "Get an agent ready: its program, its credential, one request",
		Long: `Get an agent ready. Find its program, or install it with npm; store its API key or
token in the vault, or log in with a browser; bind it in config.yaml to the one host
that it is for: a cloister gets a placeholder. Then send one request with it from
inside a cloister, which costs nothing, and say what remains. The credential is asked
for, or read from standard input where that is no terminal. Without AGENT it is the
one that is installed.

With gvisor: build the program that --isolation gvisor needs, with the Go toolchain, or
take it from a folder where it was built (--from), verify it and install it.

With local-user, as root: make what --isolation user needs, for hosts that give their
accounts no user namespaces. It makes a system account and a service, for the accounts
that are named, or that of sudo; --undo removes all of it.`,
		Example: "  cloister setup claude\n" +
			"  cloister setup claude --with login\n" +
			"  cloister setup codex --install <key-file\n" +
			"  cloister setup gvisor\n" +
			"  sudo cloister setup local-user",
		Args: cli.Args(0, 64),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return append(agent.Names(), levelGVisor, levelLocal), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.setup(cmd.Context(), args, f) },
	}
	c.Flags().StringVar(&f.with, "with", "", "what it logs in with: `key`, token or login (a subscription)")
	c.Flags().BoolVar(&f.install, "install", false, "install the agent's program where it is missing, without a question")
	c.Flags().BoolVar(&f.noTry, "no-try", false, "send no request")
	c.Flags().StringVar(&f.from, "from", "", "for gvisor: the `FOLDER` that its program was built in")
	c.Flags().BoolVar(&f.undo, "undo", false, "for local-user: remove what it made")
	c.AddCommand(pods.Command(a.App), machines.Command(a.App))
	ways := []string{"key", "token", withLogin}
	_ = c.RegisterFlagCompletionFunc("with", cobra.FixedCompletions(ways, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// levelGVisor is the word for the level that needs a program of its own.
const levelGVisor = "gvisor"

// levelLocal is the word for what the user level needs of root.
const levelLocal = "local-user"

func (a *Commands) setup(ctx context.Context, args []string, f *flags) error {
	if len(args) > 0 && args[0] == levelLocal {
		if f.with != "" || f.install || f.noTry || f.from != "" {
			return cli.Usage("cloister setup local-user [ACCOUNT...] [--undo]",
				"setup local-user: --with, --install, --no-try and --from are for others")
		}
		return a.setupLocal(ctx, args[1:], f.undo)
	}
	if len(args) > 1 {
		return cli.Usage("one at a time", "setup: %d words are too many", len(args))
	}
	if f.undo {
		return cli.Usage("cloister setup local-user --undo", "setup: --undo is for local-user")
	}
	if len(args) > 0 && args[0] == levelGVisor {
		if f.with != "" || f.install || f.noTry {
			return cli.Usage("cloister setup gvisor [--from FOLDER]",
				"setup gvisor: --with, --install and --no-try are for agents")
		}
		return a.setupGVisor(ctx, f.from)
	}
	if f.from != "" {
		return cli.Usage("cloister setup gvisor --from FOLDER", "setup: --from is for gvisor")
	}
	who, err := a.agentTyped(args)
	if err != nil {
		return err
	}
	words := make([]string, 0, len(who.Logins)+1)
	for _, l := range who.Logins {
		words = append(words, l.Word)
	}
	if slices.Contains(config.LoginNames(), who.Name) {
		words = append(words, withLogin)
	}
	with := cmp.Or(f.with, words[0])
	if !slices.Contains(words, with) {
		return cli.Usage("one of: "+strings.Join(words, ", "), "setup %s: --with %q is not known", who.Name, f.with)
	}
	if err := a.find(ctx, who, f.install); err != nil {
		return err
	}
	if with == withLogin {
		if err := a.Secrets.Login(ctx, who.Name); err != nil {
			return err
		}
		a.remains(who)
		return nil
	}
	login := who.Logins[slices.Index(words, with)]
	if err := a.storeLogin(ctx, who.Name, login); err != nil {
		return err
	}
	if err := a.bindLogin(ctx, login); err != nil {
		return err
	}
	a.Line("%s: %s goes to %s, in the header %s; inside there is a placeholder",
		who.Name, login.Secret, strings.Join(append([]string{login.Host}, login.Also...), ", "), login.Header)
	if !f.noTry {
		if err := a.try(ctx, login); err != nil {
			return err
		}
	}
	a.remains(who)
	return nil
}

// agentTyped is the agent that was typed or, without a word, the one that is installed.
func (a *Commands) agentTyped(args []string) (agent.Agent, error) {
	if len(args) == 0 {
		var there []string
		for _, name := range agent.Names() {
			if a.onPath(name) {
				there = append(there, name)
			}
		}
		if len(there) != 1 {
			hint := "there are: " + strings.Join(agent.Names(), ", ")
			if len(there) > 1 {
				hint = "installed are: " + strings.Join(there, ", ")
			}
			return agent.Agent{}, cli.Usage(hint, "setup: which agent?")
		}
		args = there
	}
	who := agent.Find(args[0])
	if len(who.Logins) == 0 {
		hint := "there are: " + strings.Join(agent.Names(), ", ") +
			"; for another: cloister secret set NAME, and secrets: in config.yaml"
		if near := nearest.Word(args[0], agent.Names()); near != "" {
			hint = "did you mean cloister setup " + near + "?"
		}
		return who, cli.Usage(hint, "setup: %q is no agent that is known", args[0])
	}
	return who, nil
}

// remains says what is left to do.
func (a *Commands) remains(who agent.Agent) {
	if !a.onPath(who.Argv[0]) {
		a.Notice("hint: get it: %s", who.Install)
	}
	a.Notice("hint: in a project: cloister %s", who.Name)
}

// canAsk reports whether a person can be asked.
func (a *Commands) canAsk() bool { return term.IsTerminal(int(a.Stdin.Fd())) && !a.Quiet }

// agreed asks a person; an empty answer is yes where that is usual.
func (a *Commands) agreed(question string, usual bool) bool {
	choice := "[y/N]"
	if usual {
		choice = "[Y/n]"
	}
	fmt.Fprintf(a.Stderr, "%s %s ", question, choice)
	var word strings.Builder
	for b := make([]byte, 1); ; {
		// A byte at a time: what is typed behind it is the next question's.
		if n, err := a.Stdin.Read(b); err != nil || n == 0 || b[0] == '\n' {
			break
		}
		word.Write(b)
	}
	switch strings.ToLower(strings.TrimSpace(word.String())) {
	case "":
		return usual
	case "y", "yes":
		return true
	}
	return false
}

// storeLogin puts the credential into the vault. One that is there is replaced
// where the person says so, or where no person can be asked.
func (a *Commands) storeLogin(ctx context.Context, name string, login agent.Credential) error {
	asks := term.IsTerminal(int(a.Stdin.Fd()))
	return a.withVault(ctx, func(c *client.Client, all api.Secrets) error {
		there := slices.ContainsFunc(all.Secrets, func(s api.Secret) bool {
			return s.Name == login.Secret && s.Source != api.SecretMissing
		})
		if there && asks {
			if !a.agreed(login.Secret+" is in the vault; replace it?", false) {
				return nil
			}
		}
		if asks {
			a.Notice("%s", login.Get)
		}
		text, err := a.Secrets.Text(login.Secret)
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" && there && !asks {
			return nil // nothing was given, and nothing is missing
		}
		value, err := secrets.Typed("", text)
		if err != nil {
			return cli.Usage("give it on standard input: cloister setup "+name+" <FILE; "+login.Get, "setup %s: %s: %v", name,
				login.Secret, err)
		}
		if _, err := c.SetSecret(ctx, login.Secret, api.SecretSet{Value: value}); err != nil {
			return err
		}
		kept, err := c.Secrets(ctx) // where it lies is known from the first one on
		if err == nil {
			a.Notice("kept in %s", kept.Protection)
		}
		return err
	})
}

func (a *Commands) withVault(ctx context.Context, do func(*client.Client, api.Secrets) error) error {
	c, err := a.Ensure(ctx)
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
func (a *Commands) bindLogin(ctx context.Context, login agent.Credential) error {
	cfg, _, err := a.Load()
	if err != nil {
		return err
	}
	known := func(s config.Secret) bool { return s.Name == login.Secret }
	if slices.ContainsFunc(cfg.Secrets, known) {
		return nil
	}
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	file := filepath.Join(d.Config, "config.yaml")
	bound := config.Secret{Name: login.Secret, Hosts: append([]string{login.Host}, login.Also...),
		Header: login.Header, Format: login.Format}
	var failed error
	err = durable.Update(file, 0o600, func(text []byte) ([]byte, error) {
		if text == nil {
			text = config.Starter()
		}
		if now, err := config.Parse(file, text); err == nil && slices.ContainsFunc(now.Secrets, known) {
			return text, nil // another setup was faster
		}
		if text, failed = edit.WithSecret(text, bound); failed == nil {
			_, failed = config.Parse(file, text)
		}
		return text, failed
	})
	if failed != nil {
		return cli.Hinted(fmt.Errorf("bind %s: %w", login.Secret, err), "write it yourself: cloister config edit")
	}
	if err != nil {
		return fmt.Errorf("bind %s: %w", login.Secret, err)
	}
	a.Notice("%s: secrets has a line more", file)
	return a.WithGuardian(ctx, func(c *client.Client) error {
		_, err := c.Reload(ctx)
		return err
	})
}

// onPath reports whether the person's PATH has a program.
func (a *Commands) onPath(program string) bool {
	for _, dir := range filepath.SplitList(a.Env.Get("PATH")) {
		if fi, err := os.Stat(filepath.Join(dir, program)); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
