package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/google/subcommands"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/boot/procfs"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/flag"
)

// image are the descriptors of a saved memory: of three files, in the order in which the sandbox
// expects them (its state, where pages lie, and the pages).
type image []int

func (i *image) String() string { return fmt.Sprint([]int(*i)) }

// Get is a flag's value, as runsc's flags have.
func (i *image) Get() any { return *i }

func (i *image) Set(s string) error {
	*i = nil
	for word := range strings.SplitSeq(s, ":") {
		fd, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("%q are not descriptors", s)
		}
		*i = append(*i, fd)
	}
	if len(*i) != 3 {
		return fmt.Errorf("%q are not three descriptors", s)
	}
	return nil
}

// given reports whether there is one.
func (i image) given() bool { return len(i) > 0 }

func (i image) files() (out []*os.File) {
	for _, fd := range i {
		out = append(out, os.NewFile(uintptr(fd), "image"))
	}
	return out
}

// save keeps the memory of a box that another process made, which goes on afterwards.
//
// It pauses the sandbox, says "still", saves, says "saved", waits until the descriptor --until
// ends, and lets the sandbox go on. Whatever ends the caller ends that descriptor too.
type save struct {
	told
	image image
	until int
}

func (s *save) SetFlags(f *flag.FlagSet) {
	s.told.SetFlags(f)
	f.Var(&s.image, "image", "the descriptors of the image's files")
	f.IntVar(&s.until, "until", -1, "the descriptor whose end lets the box go on")
}

func (*save) Name() string     { return "save" }
func (*save) Synopsis() string { return "save the memory of a box" }
func (*save) Usage() string    { return "save\n" }

func (s *save) Execute(_ context.Context, _ *flag.FlagSet, args ...any) subcommands.ExitStatus {
	conf := args[0].(*config.Config)
	if !s.hello() {
		return subcommands.ExitFailure
	}
	// This process lets the sandbox go on whatever becomes of its caller.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		return s.refuse(conf, fmt.Errorf("outlive the caller: %w", err))
	}
	c, err := container.Load(conf.RootDir, container.FullID{ContainerID: id}, container.LoadOpts{})
	if err != nil {
		return s.refuse(conf, err)
	}
	if err := s.run(c); err != nil {
		return s.refuse(conf, err)
	}
	s.say("end 0")
	return subcommands.ExitSuccess
}

func (s *save) run(c *container.Container) (err error) {
	conn, err := connect(c)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Call(boot.ContMgrPause, nil, nil); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	defer func() {
		if e := conn.Call(boot.ContMgrResume, nil, nil); e != nil {
			err = errors.Join(err, fmt.Errorf("resume: %w", e))
		}
	}()
	process := c.Spec.Process
	if len(process.Args) < 5 {
		return fmt.Errorf("the box's process has %d arguments", len(process.Args))
	}
	s.say("shape %t %s", process.Terminal, process.Args[4])
	var dump []procfs.ProcessProcfsDump
	if err := conn.Call(boot.ContMgrProcfsDump, nil, &dump); err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, p := range dump {
		s.say("process %d %s", p.Status.PID, p.Exe)
	}
	s.say("started")
	files := s.image.files()
	o := control.SaveOpts{
		Metadata: statefile.CompressionLevelNone.ToMetadata(), HavePagesFile: true, Resume: true,
		FilePayload: urpc.FilePayload{Files: files},
	}
	if err := conn.Call(boot.ContMgrCheckpoint, &o, nil); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	s.say("saved")
	_, err = io.Copy(io.Discard, os.NewFile(uintptr(s.until), "until"))
	return err
}

func connect(c *container.Container) (*urpc.Client, error) {
	conn, err := client.ConnectTo(c.Sandbox.GetControlSocketPath())
	if err != nil {
		return nil, fmt.Errorf("reach the sandbox: %w", err)
	}
	return conn, nil
}

// restore fills a sandbox that was made, and has started nothing, with a saved memory.
func restore(c *container.Container, i image) error {
	conn, err := connect(c)
	if err != nil {
		return err
	}
	defer conn.Close()
	o := boot.RestoreOpts{HavePagesFile: true, Background: true, FilePayload: urpc.FilePayload{Files: i.files()}}
	if err := conn.Call(boot.ContMgrRestore, &o, nil); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}
