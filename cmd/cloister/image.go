package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/agent"
	"cloister/cmd/cloister/cli"
	"cloister/internal/xdg"
	"cloister/policy/destination"
	"cloister/sandbox"
	"cloister/sandbox/image"

	"github.com/spf13/cobra"
)

func (a *app) imageCommand() *cobra.Command {
	return cli.Group("image", "The images that a cloister's system can be", a.imageListCommand(), a.imagePullCommand(),
		a.imageBuildCommand(), a.imageInspectCommand(), a.imageRemoveCommand())
}

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
func (a *app) system(ctx context.Context, f *runFlags, dirs xdg.Dirs,
	driver sandbox.Driver) (sandbox.Root, []string, error) {
	none := sandbox.Root{}
	k, ok := driver.(keeper)
	if !ok {
		return a.stored(ctx, f, dirs)
	}
	base := f.Image == ""
	if base {
		f.Image = baseImage
	}
	// What a name means here it means for every driver; the engine's own images
	// come after.
	named, err := a.Tilde(f.Image)
	if err != nil {
		return none, nil, err
	}
	if _, unknown := a.ImageStore(dirs).Find(named); unknown != nil && !image.IsLocal(f.Image) {
		root, path, err := k.Find(ctx, f.Image)
		if _, missing := errors.AsType[noImage](err); err == nil || !missing {
			return root, path, err
		}
		if base {
			// No one named it, so no one asked for it to be fetched.
			return none, nil, cli.Hinted(fmt.Errorf("there is no base image: %w", unknown),
				"make it: cloister image build, or cloister image build --from-host", "or name another: --image IMAGE")
		}
	}
	root, path, err := a.stored(ctx, f, dirs)
	if err != nil {
		return none, nil, err
	}
	return root, path, k.Give(ctx, root, a.Slow)
}

// noImage is the error of a driver that has no image of a name.
type noImage interface {
	error
	NoImage()
}

// stored is the system of an image of the store, fetched where it is not there.
func (a *app) stored(ctx context.Context, f *runFlags, dirs xdg.Dirs) (sandbox.Root, []string, error) {
	none := sandbox.Root{}
	if f.Image == "" {
		return none, nil, nil
	}
	named, err := a.Tilde(f.Image)
	if err != nil {
		return none, nil, err
	}
	store := a.ImageStore(dirs)
	i, err := store.Get(ctx, named, a.Slow)
	if err != nil {
		return none, nil, err
	}
	hold, err := store.Hold(i)
	if err != nil {
		return none, nil, err
	}
	a.Held = append(a.Held, hold)
	root, err := filepath.EvalSymlinks(store.Root(i))
	if err != nil {
		return none, nil, fmt.Errorf("image %s: %w", f.Image, err)
	}
	return sandbox.Root{Dir: sandbox.HostPath(root), ID: i.ID}, i.Path, nil
}

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
	return imageLine{i.ID, i.Digest, names, i.Source, i.OS, i.Arch, i.Size, i.Files, i.LeftOut, i.Created, i.Stored, path,
		s.Root(i)}
}

func (a *app) imageListCommand() *cobra.Command {
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
			lines := []imageLine{}
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

func (a *app) imagePullCommand() *cobra.Command {
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

// buildFlags are the flags of image build, as typed.
type buildFlags struct {
	fromHost, show  bool
	tag, file       string
	packages, allow []string
	agents          []string
}

func (a *app) imageBuildCommand() *cobra.Command {
	f := &buildFlags{}
	c := &cobra.Command{
		Use: "build", Short: "Make an image: the base image, one by a definition of yours, or one of this machine's packages",
		Args: cli.Args(0, 0),
		Long: "Make an image. Without flags that is the base image, in which agents find what they\n" +
			"work with: Debian, git, ripgrep, Node, Python, Go, a C compiler and the agents. A\n" +
			"Docker engine builds it by a definition (--show prints it, --file names another). Its\n" +
			"steps run with no network but the guardian's, where they reach package registries,\n" +
			"Debian, what your configuration allows, and what --allow names, and trust the\n" +
			"authorities that this host trusts; the image that a definition begins with is fetched\n" +
			"by the engine itself.\n\n" +
			"With --from-host nothing is fetched and no engine is asked: the image has what every\n" +
			"Debian has, the usual tools of an agent as far as they are installed here (git,\n" +
			"ripgrep, Node, Python, Go, a C compiler), the packages named, with all that they\n" +
			"depend on, and the agents named, as they are installed here.",
		Example: "  cloister image build\n  cloister image build --file env.Dockerfile --allow downloads.example.com -t " +
			"work\n  cloister image build --from-host --agent claude --package postgresql-client -t work",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.imageBuild(cmd.Context(), f) },
	}
	fl := c.Flags()
	fl.BoolVar(&f.fromHost, "from-host", false,
		"of this machine's installed packages (Debian and its kin), without an engine")
	fl.StringVarP(&f.tag, "tag", "t", baseImage, "`NAME` of the image")
	fl.StringArrayVar(&f.packages, "package", nil,
		"with --from-host: also this installed `PACKAGE`, with all that it depends on")
	fl.StringArrayVar(&f.agents, "agent", nil, "with --from-host: also this `AGENT`, which PATH finds")
	fl.StringVarP(&f.file, "file", "f", "", "build by this `DEFINITION` (a Dockerfile) instead of the base image's")
	fl.StringArrayVar(&f.allow, "allow", nil, "allow the steps `DOMAIN[:PORT]`")
	fl.BoolVar(&f.show, "show", false, "print the base image's definition and build nothing")
	return c
}

// check refuses flags that do not go together.
func (f *buildFlags) check() error {
	const usage = "cloister image build, or cloister image build --from-host"
	switch {
	case f.show && (f.fromHost || f.file != ""):
		return cli.Usage(usage, "image build: --show prints the base image's definition and goes with no other flag")
	case f.fromHost && (f.file != "" || len(f.allow) > 0):
		return cli.Usage(usage, "image build: --from-host fetches nothing and reads no definition")
	case !f.fromHost && len(f.packages) > 0:
		return cli.Usage("cloister image build --from-host --package NAME", "image build: --package is for --from-host")
	case !f.fromHost && len(f.agents) > 0:
		return cli.Usage("the base image has the agents; of this machine's: cloister image build --from-host --agent NAME",
			"image build: --agent is for --from-host")
	}
	if err := image.Check(f.tag); err != nil || strings.Contains(f.tag, "@") || image.IsLocal(f.tag) {
		return cli.Usage("names are lower-case, such as cloister-base or work:2",
			"image build: --tag %q is no name of an image", f.tag)
	}
	if len(f.allow) > 0 {
		if err := destination.Check(f.allow, nil); err != nil {
			return cli.Usage("write DOMAIN or DOMAIN:PORT", "image build: %v", err)
		}
	}
	return nil
}

func (a *app) imageBuild(ctx context.Context, f *buildFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if !f.fromHost {
		return a.engineBuild(ctx, f)
	}
	s, err := a.Images()
	if err != nil {
		return err
	}
	programs, err := a.installed(f.agents)
	if err != nil {
		return err
	}
	a.Slow("copying this machine's packages")
	i, err := s.FromHost(ctx, image.Host{Root: "/", Packages: f.packages, Programs: programs}, f.tag)
	if err != nil {
		return err
	}
	a.Line("%s", i.ID)
	return nil
}

// installed finds the programs of agents by this person's PATH.
func (a *app) installed(agents []string) ([]string, error) {
	var out []string
	for _, name := range agents {
		if strings.ContainsAny(name, "/ \t\n") || name == "" {
			return nil, cli.Usage("such as --agent claude", "image build: --agent %q is not the name of a program", name)
		}
		file := a.found(agent.Find(name).Argv[0])
		if file == "" {
			hints := []string{}
			if how := agent.Find(name).Install; how != "" {
				hints = append(hints, "install it: "+how)
			}
			return nil, cli.Hinted(fmt.Errorf("image build: PATH finds no %s", name), hints...)
		}
		out = append(out, file)
	}
	return out, nil
}

// found is the file of a program by this person's PATH; empty where there is none.
func (a *app) found(program string) string {
	for dir := range strings.SplitSeq(a.Env.Get("PATH"), ":") {
		file := filepath.Join(dir, program)
		if fi, err := os.Stat(file); err == nil && filepath.IsAbs(dir) && fi.Mode().IsRegular() &&
			fi.Mode().Perm()&0o111 != 0 {
			return file
		}
	}
	return ""
}

func (a *app) imageInspectCommand() *cobra.Command {
	return &cobra.Command{
		Use: "inspect IMAGE", Short: "Tell everything about an image, as JSON", Args: cli.Args(1, 1),
		ValidArgsFunction: a.completeImages,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.Images()
			if err != nil {
				return err
			}
			i, err := s.Find(args[0])
			if err != nil {
				return a.imageError(err)
			}
			return a.JSON(lineOf(s, i))
		},
	}
}

func (a *app) imageRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove IMAGE...", Aliases: []string{"rm"}, Short: "Remove images, or one of several names of an image",
		Args:              cli.Args(1, 1<<20),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Images()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				i, err := s.Remove(cmd.Context(), name)
				if err != nil {
					errs = append(errs, a.imageError(err))
					continue
				}
				if _, err := s.Find(i.ID); err != nil {
					errs = append(errs, a.engineForget(cmd.Context(), i))
				}
				a.Line("%s", name)
			}
			return errors.Join(errs...)
		},
	}
}

// imageError adds where to look to the error of an image that is not there.
func (*app) imageError(err error) error {
	if errors.Is(err, image.ErrNotStored) {
		return cli.Hinted(err, "cloister image list shows those that are; cloister image pull fetches one")
	}
	return err
}

// completeImages offers names, and IDs of images without.
func (a *app) completeImages(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
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
