package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/image"

	"github.com/spf13/cobra"
)

func (a *app) imageCommand() *cobra.Command {
	return group("image", "The images that a cloister's system can be", a.imageListCommand(), a.imagePullCommand(), a.imageBuildCommand(), a.imageInspectCommand(), a.imageRemoveCommand())
}

// images is this instance's store.
func (a *app) images() (*image.Store, error) {
	dirs, err := a.dirs()
	if err != nil {
		return nil, err
	}
	return imageStore(dirs), nil
}

func imageStore(d xdg.Dirs) *image.Store { return image.Open(filepath.Join(d.Data, "images")) }

// keeper is a driver that has images of its own, and is given those of the store.
type keeper interface {
	Find(ctx context.Context, name string) (sandbox.Root, []string, error)
	Give(ctx context.Context, r sandbox.Root, say func(string)) error
}

// baseImage is what runs where an image is needed and none is named.
const baseImage = "cloister-base"

// system is what --image or the configuration names as the system inside: the
// zero value where neither does and the driver needs none. The image cannot be
// removed while this process lives.
func (a *app) system(ctx context.Context, f *runFlags, dirs xdg.Dirs, driver sandbox.Driver) (sandbox.Root, []string, error) {
	none := sandbox.Root{}
	k, ok := driver.(keeper)
	if !ok {
		return a.stored(ctx, f, dirs)
	}
	base := f.image == ""
	if base {
		f.image = baseImage
	}
	if !image.IsLocal(f.image) {
		root, path, err := k.Find(ctx, f.image)
		if _, missing := errors.AsType[noImage](err); err == nil || !missing {
			return root, path, err
		}
	}
	if base {
		// Nobody named it, so nobody asked for it to be fetched.
		if _, err := imageStore(dirs).Find(baseImage); err != nil {
			return none, nil, hinted(fmt.Errorf("there is no base image: %w", err),
				"make it: cloister image build, or cloister image build --from-host", "or name another: --image IMAGE")
		}
	}
	root, path, err := a.stored(ctx, f, dirs)
	if err != nil {
		return none, nil, err
	}
	return root, path, k.Give(ctx, root, a.slow)
}

// noImage is the error of a driver that has no image of a name.
type noImage interface {
	error
	NoImage()
}

// stored is the system of an image of the store, fetched where it is not there.
func (a *app) stored(ctx context.Context, f *runFlags, dirs xdg.Dirs) (sandbox.Root, []string, error) {
	none := sandbox.Root{}
	if f.image == "" {
		return none, nil, nil
	}
	named, err := a.tilde(f.image)
	if err != nil {
		return none, nil, err
	}
	store := imageStore(dirs)
	i, err := store.Get(ctx, named, a.slow)
	if err != nil {
		return none, nil, err
	}
	hold, err := store.Hold(i)
	if err != nil {
		return none, nil, err
	}
	a.held = append(a.held, hold)
	root, err := filepath.EvalSymlinks(store.Root(i))
	if err != nil {
		return none, nil, fmt.Errorf("image %s: %w", f.image, err)
	}
	return sandbox.Root{Dir: sandbox.HostPath(root), ID: i.ID}, i.Path, nil
}

// slow tells what takes long.
func (a *app) slow(text string) { a.notice("cloister: %s", text) }

// imageLine is one image of `image list --json` and `image inspect`.
type imageLine struct {
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

func lineOf(s *image.Store, i image.Image) imageLine {
	names := []string{}
	for _, n := range i.Names {
		names = append(names, image.Familiar(n))
	}
	path := i.Path
	if path == nil {
		path = []string{}
	}
	return imageLine{i.ID, i.Digest, names, i.Source, i.OS, i.Arch, i.Size, i.Files, i.LeftOut, i.Created, i.Stored, path, s.Root(i)}
}

func (a *app) imageListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the images that are here", Args: counted(0, 0),
		RunE: func(*cobra.Command, []string) error {
			s, err := a.images()
			if err != nil {
				return err
			}
			list, err := s.List()
			if err != nil {
				return err
			}
			lines := []imageLine{}
			for _, i := range list {
				lines = append(lines, lineOf(s, i))
			}
			if asJSON {
				return a.json(lines)
			}
			rows := [][]string{{"IMAGE", "ID", "STORED", "SIZE"}}
			for n, l := range lines {
				name := strings.Join(l.Names, ", ")
				if name == "" {
					name = l.Source
				}
				rows = append(rows, []string{name, list[n].Short(), l.StoredAt.Local().Format("2006-01-02 15:04"), fmt.Sprintf("%.1f MiB", float64(l.Size)/(1<<20))})
			}
			a.table(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) imagePullCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pull IMAGE", Short: "Fetch an image, also one whose name is here already", Args: counted(1, 1),
		Example: "  cloister image pull debian:12\n  cloister image pull ./image.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.images()
			if err != nil {
				return err
			}
			i, err := s.Pull(cmd.Context(), args[0], a.slow)
			if err != nil {
				return err
			}
			if i.LeftOut > 0 {
				a.notice("cloister: %d devices, pipes and files of /dev, /proc, /sys or /run were left out", i.LeftOut)
			}
			a.line("%s", i.ID)
			return nil
		},
	}
}

func (a *app) imageBuildCommand() *cobra.Command {
	var (
		fromHost bool
		tag      string
		packages []string
	)
	c := &cobra.Command{
		Use: "build --from-host", Short: "Make an image of this machine's own packages, without fetching anything", Args: counted(0, 0),
		Long: "Make an image of this machine's own packages, without fetching anything: what every\n" +
			"Debian has, the usual tools of an agent as far as they are installed (git, ripgrep,\n" +
			"Node, Python, Go, a C compiler), and those named, with all that they depend on.",
		Example: "  cloister image build --from-host\n  cloister image build --from-host --package postgresql-client -t work",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !fromHost {
				return wrongWords("cloister image build --from-host", "image build: --from-host is missing: nothing else to build from is known")
			}
			s, err := a.images()
			if err != nil {
				return err
			}
			a.slow("copying this machine's packages")
			i, err := s.FromHost(cmd.Context(), image.Host{Root: "/", Packages: packages}, tag)
			if err != nil {
				return err
			}
			a.line("%s", i.ID)
			return nil
		},
	}
	c.Flags().BoolVar(&fromHost, "from-host", false, "of this machine's installed packages (Debian and its kin)")
	c.Flags().StringVarP(&tag, "tag", "t", "cloister-base", "`NAME` of the image")
	c.Flags().StringArrayVar(&packages, "package", nil, "also this installed `PACKAGE`, with all that it depends on")
	return c
}

func (a *app) imageInspectCommand() *cobra.Command {
	return &cobra.Command{
		Use: "inspect IMAGE", Short: "Tell everything about an image, as JSON", Args: counted(1, 1),
		ValidArgsFunction: a.completeImages,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.images()
			if err != nil {
				return err
			}
			i, err := s.Find(args[0])
			if err != nil {
				return a.imageError(err)
			}
			return a.json(lineOf(s, i))
		},
	}
}

func (a *app) imageRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove IMAGE...", Aliases: []string{"rm"}, Short: "Remove images, or one of several names of an image", Args: counted(1, 1<<20),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.images()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				if _, err := s.Remove(cmd.Context(), name); err != nil {
					errs = append(errs, a.imageError(err))
					continue
				}
				a.line("%s", name)
			}
			return errors.Join(errs...)
		},
	}
}

// imageError adds where to look to the error of an image that is not there.
func (*app) imageError(err error) error {
	if errors.Is(err, image.ErrNotStored) {
		return hinted(err, "cloister image list shows those that are; cloister image pull fetches one")
	}
	return err
}

// completeImages offers names, and IDs of images without.
func (a *app) completeImages(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	s, err := a.images()
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
