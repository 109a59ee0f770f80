package overlays

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"cloister/api"
	"cloister/audit"
	"cloister/cmd/cloister/cli"
	"cloister/internal/noecho"
	"cloister/session/kept"
	"cloister/session/registry"
	"cloister/state/sealed"
	"cloister/state/store"
	"cloister/workspace/projects"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *Commands) checkpointExport() *cobra.Command {
	var noHome, passphrase bool
	var recipients []string
	c := &cobra.Command{
		Use:   "export NAME[@CHECKPOINT] FILE",
		Short: "Write a checkpoint into one file, for another machine",
		Long: `Write a checkpoint, the newest unless one is named, into one file (- is stdout). The
private home is in it, with what the agent remembers and with logins that were made inside:
--no-home leaves it out. The project itself is not in it. The file is encrypted, as age does
it, to each --recipient and those of state.recipients, or by a --passphrase that is asked
for at the terminal; otherwise it is not.`,
		Args:              cli.Args(2, 2),
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := a.sealTo(recipients, passphrase)
			if err != nil {
				return err
			}
			h, w, id, err := a.handAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			if id = cmp.Or(id, w.Head); id == "" {
				return cli.Usage("cloister checkpoint "+w.Name+" makes one", "checkpoint export: %s has no checkpoint", w.Name)
			}
			made, err := w.Checkpoint(id)
			if err != nil {
				return cli.Hinted(err, "cloister checkpoints "+w.Name)
			}
			err = a.recordState(cmd.Context(), api.StateRecord{
				Kind: audit.StateCheckpoint, Cloister: w.Name, Project: w.Project, Resource: made.ID, Reason: "export",
				Digest: made.Digest,
			})
			if err != nil {
				return err
			}
			return a.writeArchive(args[1], func(out io.Writer) error {
				return sealed.Write(out, key, func(out io.Writer) error {
					return h.Watched(cmd.Context(), w).Export(out, made.ID, !noHome)
				})
			})
		},
	}
	c.Flags().BoolVar(&noHome, "no-home", false, "leave the private home out")
	c.Flags().StringArrayVarP(&recipients, "recipient", "r", nil,
		"encrypt to a recipient of age (age1…); again for another")
	c.Flags().BoolVarP(&passphrase, "passphrase", "p", false, "encrypt by a passphrase that is asked for")
	return c
}

// sealTo is what an archive is sealed to.
func (a *Commands) sealTo(recipients []string, passphrase bool) (key sealed.Key, err error) {
	if err := sealed.Check(recipients); err != nil {
		return key, cli.Usage("", "checkpoint export: --recipient %v", err)
	}
	if passphrase {
		if len(recipients) > 0 {
			return key, cli.Usage("", "checkpoint export: --passphrase is instead of --recipient")
		}
		key.Passphrase, err = a.passphrase("checkpoint export", "passphrase", "the same again")
		return key, err
	}
	d, err := a.Dirs()
	if err == nil {
		key.Recipients, err = kept.Recipients(d)
	}
	key.Recipients = append(key.Recipients, recipients...)
	return key, err
}

// passphrase asks at the terminal, as often as there are prompts, for the same.
func (a *Commands) passphrase(verb string, prompts ...string) (text string, err error) {
	if !term.IsTerminal(int(a.Stdin.Fd())) {
		return "", cli.Usage("a recipient and its identity need no terminal",
			"%s: a passphrase is asked for at a terminal, and stdin is none", verb)
	}
	text, err = noecho.Same(a.Stdin, a.Stderr, prompts...)
	if stopped, ok := errors.AsType[*noecho.Interrupted](err); ok {
		stopped.Raise()
		return "", &cli.StatusError{Status: cli.StatusSignalBase + int(stopped.Signal)}
	}
	return text, err
}

// unsealed is an archive as it was before it was sealed, where it was.
func (a *Commands) unsealed(in *bufio.Reader, identity string) (io.Reader, error) {
	ask := func() (string, error) { return a.passphrase("checkpoint import", "passphrase") }
	if !term.IsTerminal(int(a.Stdin.Fd())) {
		ask = nil
	}
	if identity == "" {
		return sealed.Read(in, nil, ask)
	}
	path, err := a.Typed(identity)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return sealed.Read(in, f, ask)
}

// writeArchive writes to a new file of the person alone, which is there once it is whole.
func (a *Commands) writeArchive(name string, write func(io.Writer) error) (err error) {
	if name == "-" {
		if term.IsTerminal(int(a.Stdout.Fd())) {
			return cli.Usage("cloister checkpoint export NAME - >FILE",
				"checkpoint export: an archive is nothing for a terminal")
		}
		return write(a.Out)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".cloister-export-") // its mode is 0600
	if err != nil {
		return fmt.Errorf("checkpoint export: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link is refused where a file of that name is there: nothing is overwritten.
	if err := os.Link(f.Name(), name); err != nil {
		return fmt.Errorf("checkpoint export: %w", err)
	}
	return os.Remove(f.Name())
}

func (a *Commands) checkpointImport() *cobra.Command {
	var name, project, identity string
	var asJSON bool
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Make an overlay cloister of an exported checkpoint",
		Long: `Make an overlay workspace over this project of a file that checkpoint export wrote (- is
stdin). It is taken as a payload's work: nothing of it reaches the project before you apply
it, and a file that is damaged or holds what no checkpoint does is refused whole. One that is
sealed to a recipient needs --identity; one by a passphrase asks for it.`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name != "" {
				if err := registry.CheckName(name); err != nil {
					return cli.Usage("", "checkpoint import: %v", err)
				}
			}
			p, err := a.FindProject(cmp.Or(project, "."))
			if err != nil {
				return err
			}
			in := a.Stdin
			if args[0] != "-" {
				file, err := a.Typed(args[0])
				if err == nil {
					in, err = os.Open(file)
				}
				if err != nil {
					return fmt.Errorf("checkpoint import: %w", err)
				}
				defer in.Close()
			}
			archive, err := a.unsealed(bufio.NewReader(in), identity)
			if err != nil {
				return fmt.Errorf("checkpoint import: %w", err)
			}
			d, err := a.Dirs()
			if err == nil {
				_, err = projects.Register(d, string(p.Main), a.Complain)
			}
			if err != nil {
				return err
			}
			s, err := kept.Open(d, string(p.Root))
			if err != nil {
				return err
			}
			name = cmp.Or(name, kept.NewName(registry.FolderName(string(p.Root))))
			made, from, err := s.Import(cmd.Context(), archive, name, string(p.Root),
				func(c store.Checkpoint) error {
					return a.recordState(cmd.Context(), api.StateRecord{
						Kind: audit.StateCheckpoint, Cloister: name, Project: string(p.Root), Resource: c.ID, Reason: "import",
						Digest: c.Digest,
					})
				})
			if err != nil {
				return fmt.Errorf("checkpoint %w", err)
			}
			if from != string(p.Root) {
				a.Notice("cloister: it was made over %s: cloister diff %s compares it with %s", from, name, p.Root)
			}
			if asJSON {
				return a.JSON(kept.Checkpoint(name, made))
			}
			a.Line("%s@%s", name, made.ID)
			return nil
		},
	}
	c.Flags().StringVarP(&identity, "identity", "i", "", "file with the identities of age that open it")
	c.Flags().StringVar(&name, "name", "", "name of the cloister (made from the project's when absent)")
	c.Flags().StringVarP(&project, "project", "C", "", "the project, instead of the current folder's")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}
