package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/subcommands"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cmd/util"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/specutils"
)

// The one container of a sandbox, and where its specification lies.
const (
	id     = "cloister"
	bundle = "/bundle"
)

// told are the flags that both commands have.
type told struct {
	util.InternalSubCommand
	protocol string
	report   int
	pass     passed
}

func (t *told) SetFlags(f *flag.FlagSet) {
	f.StringVar(&t.protocol, "protocol", "", "what the caller speaks")
	f.IntVar(&t.report, "report", -1, "the descriptor on which to report")
	f.Var(&t.pass, "pass", "descriptors for the command, from 3 on")
}

// FetchSpec gives none: nothing of the configuration is taken from a specification.
func (*told) FetchSpec(*config.Config, *flag.FlagSet) (string, *specs.Spec, error) {
	return "", nil, nil
}

// passed is a list of descriptors, FD:NUMBER inside.
type passed map[int]int

func (p passed) String() string { return fmt.Sprint(map[int]int(p)) }

// Get is a flag's value, as runsc's flags have.
func (p *passed) Get() any { return *p }

func (p *passed) Set(s string) error {
	var from, to int
	if _, err := fmt.Sscanf(s, "%d:%d", &from, &to); err != nil {
		return fmt.Errorf("%q is no FD:NUMBER", s)
	}
	if *p == nil {
		*p = passed{}
	}
	(*p)[to] = from
	return nil
}

// files are the descriptors by their numbers inside.
func (t *told) files() map[int]*os.File {
	out := map[int]*os.File{}
	for to, from := range t.pass {
		out[to] = os.NewFile(uintptr(from), "passed")
	}
	return out
}

// say reports one line.
func (t *told) say(format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	_, _ = unix.Write(t.report, []byte(line+"\n")) // who does not listen any more has ended the box
}

// hello says who this is, and ends it where the caller speaks otherwise.
func (t *told) hello() bool {
	unix.CloseOnExec(t.report)
	t.say("hello %s gvisor %s", Protocol, pinned())
	return t.protocol == Protocol
}

// refuse reports why there is no command.
func (t *told) refuse(conf *config.Config, err error) subcommands.ExitStatus {
	if last := lastWords(conf.LogFilename); last != "" {
		err = fmt.Errorf("%w: %s", err, last)
	}
	t.say("error %v", err)
	return subcommands.ExitFailure
}

// lastWords are what a part of the sandbox said before it ended.
func lastWords(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	var said []string
	for line := range bytes.Lines(text) {
		var l struct{ Msg string }
		if json.Unmarshal(line, &l) == nil && l.Msg != "" {
			said = append(said, l.Msg)
		}
	}
	if panics, err := os.ReadFile(filepath.Join(filepath.Dir(log), "panic")); err == nil && len(panics) > 0 {
		first, _, _ := strings.Cut(string(panics), "\n\n")
		said = append(said, first)
	}
	return strings.Join(said, "; ")
}

// box makes the sandbox and runs the first process in it, or fills it with a saved memory.
type box struct {
	told
	image image
	sound int
}

func (b *box) SetFlags(f *flag.FlagSet) {
	b.told.SetFlags(f)
	f.Var(&b.image, "image", "the descriptors of a saved memory")
	f.IntVar(&b.sound, "sound", -1, "the descriptor on which one byte says that the memory is as it was saved")
}

func (*box) Name() string     { return "box" }
func (*box) Synopsis() string { return "make a box and run the command in it" }
func (*box) Usage() string    { return "box\n" }

func (b *box) Execute(_ context.Context, _ *flag.FlagSet, args ...any) subcommands.ExitStatus {
	conf := args[0].(*config.Config)
	if !b.hello() {
		return subcommands.ExitFailure
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	spec, err := specutils.ReadSpec(bundle, conf)
	if err != nil {
		return b.refuse(conf, fmt.Errorf("read specification: %w", err))
	}
	c, err := container.New(conf, container.Args{ID: id, Spec: spec, BundleDir: bundle, Attached: true, PassFiles: b.files()})
	if err != nil {
		return b.refuse(conf, err)
	}
	if err := b.begin(conf, c); err != nil {
		return b.refuse(conf, err)
	}
	go forward(signals, c, 0, spec.Process.Terminal)
	if _, err := c.Wait(); err != nil {
		return b.refuse(conf, errors.New("the sandbox ended"))
	}
	return subcommands.ExitSuccess
}

// begin starts the first process, or what a saved memory has of processes. No byte of such a memory
// comes into the sandbox before the caller has said that it is sound; then the first process inside is
// asked who it is, and says so itself.
func (b *box) begin(conf *config.Config, c *container.Container) error {
	if !b.image.given() {
		return c.Start(conf)
	}
	b.say("waits")
	var word [1]byte
	if n, err := unix.Read(b.sound, word[:]); n != 1 {
		return fmt.Errorf("the memory was not found sound: %v", err)
	}
	if err := restore(c, b.image); err != nil {
		return err
	}
	if err := c.Sandbox.SignalProcess(c.ID, 0, asked, false); err != nil {
		return fmt.Errorf("ask who goes on: %w", err)
	}
	return nil
}

// asked is the signal at which the first process inside says the name of its host. No other
// process is passed it.
const asked = syscall.Signal(64)

// more runs one more command in a box that another process made.
type more struct {
	told
	process int
}

func (m *more) SetFlags(f *flag.FlagSet) {
	m.told.SetFlags(f)
	f.IntVar(&m.process, "process", -1, "the descriptor from which to read the process")
}

func (*more) Name() string     { return "more" }
func (*more) Synopsis() string { return "run one more command in a box" }
func (*more) Usage() string    { return "more\n" }

func (m *more) Execute(_ context.Context, _ *flag.FlagSet, args ...any) subcommands.ExitStatus {
	conf := args[0].(*config.Config)
	if !m.hello() {
		return subcommands.ExitFailure
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	var p specs.Process
	if err := json.NewDecoder(os.NewFile(uintptr(m.process), "process")).Decode(&p); err != nil {
		return m.refuse(conf, fmt.Errorf("read process: %w", err))
	}
	c, err := container.Load(conf.RootDir, container.FullID{ContainerID: id}, container.LoadOpts{})
	if err != nil {
		return m.refuse(conf, err)
	}
	files := m.files()
	e, err := execArgs(&p, files)
	if err != nil {
		return m.refuse(conf, err)
	}
	pid, err := c.Execute(conf, e)
	if err != nil {
		return m.refuse(conf, err)
	}
	m.say("made")
	for _, f := range files {
		f.Close() // the sandbox has its own; the first of them tells by its end that the command runs
	}
	go forward(signals, c, pid, p.Terminal)
	ws, err := c.WaitPID(pid)
	if err != nil {
		return m.refuse(conf, errors.New("the sandbox ended"))
	}
	m.say("end %d", uint32(ws))
	return subcommands.ExitSuccess
}

// forward passes signals on: what a terminal sends to whoever stands in front of it,
// everything else to the process itself.
func forward(signals <-chan os.Signal, c *container.Container, pid int32, terminal bool) {
	for s := range signals {
		sig := s.(syscall.Signal)
		switch sig {
		case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE:
			continue
		}
		front := terminal && (sig == unix.SIGINT || sig == unix.SIGQUIT || sig == unix.SIGTSTP || sig == unix.SIGWINCH)
		_ = c.Sandbox.SignalProcess(c.ID, pid, sig, front) // it may have ended
	}
}
