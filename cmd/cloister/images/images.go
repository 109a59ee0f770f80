// Package images is the commands about the images that a cloister's system can be.
//
// The promise: the steps of a build by the engine have no network but a session's own, which
// the guardian judges and records, and what was built lies in the store afterwards, where every
// driver finds it.
//
// It unpacks and builds nothing itself: sandbox/image and sandbox/docker do. Most readers want
// [Command].
package images

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/sandbox/image"

	"github.com/spf13/cobra"
)

// door is one invocation of these commands.
type door struct{ *cli.App }

// Command is image.
func Command(app *cli.App) *cobra.Command {
	a := door{app}
	return cli.Group("image", "The images that a cloister's system can be", a.listCommand(), a.pullCommand(),
		a.buildCommand(), a.inspectCommand(), a.removeCommand())
}

// line is one image of `image list --json` and `image inspect`.
type line struct {
	ID        string    `json:"id"`
	Digest    string    `json:"digest"`
	Names     []string  `json:"names"`
	Source    string    `json:"source"`
	OS        string    `json:"os"`
	Arch      string    `json:"arch"`
	Size      int64     `json:"size"`
	Files     int64     `json:"files"`
	LeftOut   int64     `json:"left_out"`
	CreatedAt time.Time `json:"created_at"`
	StoredAt  time.Time `json:"stored_at"`
	Path      []string  `json:"path"`
	Root      string    `json:"root"`
}

func lineOf(s *image.Store, i image.Image) line {
	names := []string{}
	for _, n := range i.Names {
		names = append(names, image.Familiar(n))
	}
	path := i.Path
	if path == nil {
		path = []string{}
	}
	return line{i.ID, i.Digest, names, i.Source, i.OS, i.Arch, i.Size, i.Files, i.LeftOut, i.Created, i.Stored, path,
		s.Root(i)}
}

func (a door) listCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the images that are here", Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			s, err := a.Images()
			if err != nil {
				return err
			}
			list, err := s.List()
			if err != nil {
				return err
			}
			lines := []line{}
			for _, i := range list {
				lines = append(lines, lineOf(s, i))
			}
			if asJSON {
				return a.JSON(lines)
			}
			rows := [][]string{{"IMAGE", "ID", "STORED", "SIZE"}}
			for n, l := range lines {
				name := strings.Join(l.Names, ", ")
				if name == "" {
					name = l.Source
				}
				rows = append(rows, []string{name, list[n].Short(), l.StoredAt.Local().Format("2006-01-02 15:04"),
					fmt.Sprintf("%.1f MiB", float64(l.Size)/(1<<20))})
			}
			a.Table(rows)
			if len(lines) == 0 {
				a.Notice("no image is here; cloister image build makes one, cloister image pull fetches one")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a door) pullCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pull IMAGE", Short: "Fetch an image, also one whose name is here already", Args: cli.Args(1, 1),
		Example: "  cloister image pull debian:12\n  cloister image pull ./image.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Images()
			if err != nil {
				return err
			}
			i, err := s.Pull(cmd.Context(), args[0], a.Slow)
			if err != nil {
				return err
			}
			if i.LeftOut > 0 {
				a.Notice("cloister: %d devices, pipes and files of /dev, /proc, /sys or /run were left out", i.LeftOut)
			}
			a.Line("%s", i.ID)
			return nil
		},
	}
}

func (a door) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use: "inspect IMAGE", Short: "Tell everything about an image, as JSON", Args: cli.Args(1, 1),
		ValidArgsFunction: a.complete,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.Images()
			if err != nil {
				return err
			}
			i, err := s.Find(args[0])
			if err != nil {
				return a.notHere(err)
			}
			return a.JSON(lineOf(s, i))
		},
	}
}

func (a door) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove IMAGE...", Aliases: []string{"rm"}, Short: "Remove images, or one of several names of an image",
		Args:              cli.Args(1, 1<<20),
		ValidArgsFunction: a.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Images()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				i, err := s.Remove(cmd.Context(), name)
				if err != nil {
					errs = append(errs, a.notHere(err))
					continue
				}
				if _, err := s.Find(i.ID); err != nil {
					errs = append(errs, a.forget(cmd.Context(), i))
				}
				a.Line("%s", name)
			}
			return errors.Join(errs...)
		},
	}
}

// notHere adds where to look to the error of an image that is not there.
func (door) notHere(err error) error {
	if errors.Is(err, image.ErrNotStored) {
		return cli.Hinted(err, "cloister image list shows those that are; cloister image pull fetches one")
	}
	return err
}

// complete offers names, and IDs of images without.
func (a door) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	s, err := a.Images()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp // Tab is no place for errors
	}
	list, err := s.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, i := range list {
		if len(i.Names) == 0 {
			out = append(out, i.Short()+"\t"+i.Source)
		}
		for _, n := range i.Names {
			out = append(out, image.Familiar(n)+"\t"+i.Short())
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
