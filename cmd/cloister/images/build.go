package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cloister/agent"
	"cloister/cmd/cloister/cli"
	"cloister/policy/destination"
	"cloister/sandbox/image"
	"cloister/sandbox/image/chosen"

	"github.com/spf13/cobra"
)

// buildFlags are the flags of image build, as typed.
type buildFlags struct {
	fromHost, show  bool
	tag, file       string
	packages, allow []string
	agents          []string
}

func (a door) buildCommand() *cobra.Command {
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
		RunE: func(cmd *cobra.Command, _ []string) error { return a.build(cmd.Context(), f) },
	}
	fl := c.Flags()
	fl.BoolVar(&f.fromHost, "from-host", false,
		"of this machine's installed packages (Debian and its kin), without an engine")
	fl.StringVarP(&f.tag, "tag", "t", chosen.Base, "`NAME` of the image")
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

func (a door) build(ctx context.Context, f *buildFlags) error {
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
func (a door) installed(agents []string) ([]string, error) {
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
func (a door) found(program string) string {
	for dir := range strings.SplitSeq(a.Env.Get("PATH"), ":") {
		file := filepath.Join(dir, program)
		if fi, err := os.Stat(file); err == nil && filepath.IsAbs(dir) && fi.Mode().IsRegular() &&
			fi.Mode().Perm()&0o111 != 0 {
			return file
		}
	}
	return ""
}
