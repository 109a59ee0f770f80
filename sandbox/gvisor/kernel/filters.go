package main

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/subcommands"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	sentry "gvisor.dev/gvisor/runsc/boot/filter/config"
	"gvisor.dev/gvisor/runsc/cmd/util"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

// compiled are the filters of system calls that gVisor enters, made once where this program
// is built (-ldflags "-X main.compiled=…", of the words of "filters") and not at each start.
// Without them gVisor compiles them itself, which takes some 60 ms.
var compiled string

// partFilters are the filters of the two parts, by the options that they are for.
type partFilters struct {
	Sentry, Gofer map[string]precompiledseccomp.Program
}

// decodeFilters reads what encoded wrote.
func decodeFilters(text string) (partFilters, error) {
	var p partFilters
	raw, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = json.NewDecoder(flate.NewReader(bytes.NewReader(raw))).Decode(&p)
	}
	return p, err
}

func (p partFilters) encoded() (string, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		return "", err
	}
	if err := errors.Join(json.NewEncoder(w).Encode(p), w.Close()); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

// giveFilters hands the compiled filters to the part that this process is.
func giveFilters() {
	if compiled == "" {
		return
	}
	p, err := decodeFilters(compiled)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the compiled filters:", err)
		os.Exit(125)
	}
	registerFilters(p)
}

// part is one of the two, as gVisor makes its rules.
type part struct {
	name string
	key  string
	vars precompiledseccomp.Values
	rule func(precompiledseccomp.Values) *seccomp.Program
	own  func() *seccomp.Program // what gVisor would enter without compiled ones
}

// parts are both, with the options that gVisor's loader and gofer derive of a configuration.
func parts(conf *config.Config) ([]part, error) {
	systrap, err := platform.Lookup(conf.Platform)
	if err != nil {
		return nil, err
	}
	host := conf.Network == config.NetworkHost
	s := sentry.Options{
		Platform: systrap.PrecompiledSeccompInfo()[0], HostNetwork: host, HostNetworkRawSockets: host && conf.EnableRaw,
		HostFilesystem: conf.DirectFS, CgoEnabled: config.CgoEnabled,
	}
	g := gofer.Options{
		UDSOpenEnabled: conf.GetHostUDS().AllowOpen(), UDSCreateEnabled: conf.GetHostUDS().AllowCreate(),
		DirectFS: conf.DirectFS, CgoEnabled: config.CgoEnabled,
	}
	program := func(allow, deny seccomp.SyscallRules, o seccomp.ProgramOptions) *seccomp.Program {
		return &seccomp.Program{Options: o, RuleSets: []seccomp.RuleSet{
			{Rules: deny.Copy()}, {Rules: allow.Copy(), Action: seccomp.Allow},
		}}
	}
	return []part{
		{"sentry", s.ConfigKey(), s.Vars(), func(v precompiledseccomp.Values) *seccomp.Program {
			allow, deny := sentryRules(s, v)
			// gVisor's rule has the number of the process that compiles in it.
			allow.Remove(unix.SYS_RT_TGSIGQUEUEINFO)
			allow.Set(unix.SYS_RT_TGSIGQUEUEINFO, seccomp.PerArg{
				seccomp.EqualTo(v.GetUint64("self_pid")), seccomp.AnyValue{}, seccomp.EqualTo(unix.SIGKILL),
			})
			return program(allow, deny, sentry.SeccompOptions(s))
		}, func() *seccomp.Program {
			allow, deny := sentry.Rules(s)
			return program(allow, deny, sentry.SeccompOptions(s))
		}},
		{"gofer", g.ConfigKey(), g.Vars(), func(v precompiledseccomp.Values) *seccomp.Program {
			allow, deny := goferRules(g, v)
			return program(allow, deny, seccomp.ProgramOptions{})
		}, func() *seccomp.Program {
			allow, deny := gofer.Rules(g)
			return program(allow, deny, seccomp.ProgramOptions{})
		}},
	}, nil
}

// filters compiles the filters for the configuration that it is called with, and prints them;
// with --check it says whether those of this program are the same.
type filters struct {
	util.InternalSubCommand
	check bool
}

func (*filters) Name() string     { return "filters" }
func (*filters) Synopsis() string { return "compile the filters of system calls" }
func (*filters) Usage() string    { return "filters [--check]\n" }

func (f *filters) SetFlags(set *flag.FlagSet) {
	set.BoolVar(&f.check, "check", false, "compare those that are built in")
}

// FetchSpec gives none.
func (*filters) FetchSpec(*config.Config, *flag.FlagSet) (string, *specs.Spec, error) {
	return "", nil, nil
}

func (f *filters) Execute(_ context.Context, _ *flag.FlagSet, args ...any) subcommands.ExitStatus {
	err := f.run(args[0].(*config.Config))
	if err != nil {
		fmt.Fprintln(os.Stderr, "filters:", err)
		return subcommands.ExitFailure
	}
	return subcommands.ExitSuccess
}

func (f *filters) run(conf *config.Config) error {
	all, err := parts(conf)
	if err != nil {
		return err
	}
	if f.check {
		return compare(all)
	}
	out := partFilters{map[string]precompiledseccomp.Program{}, map[string]precompiledseccomp.Program{}}
	for _, p := range all {
		var names []string
		for name := range p.vars {
			names = append(names, name)
		}
		program, err := precompiledseccomp.Precompile(p.key, names, p.rule)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		out.of(p.name)[p.key] = program
	}
	text, err := out.encoded()
	if err != nil {
		return err
	}
	fmt.Println(text)
	return nil
}

func (p partFilters) of(name string) map[string]precompiledseccomp.Program {
	return map[string]map[string]precompiledseccomp.Program{"sentry": p.Sentry, "gofer": p.Gofer}[name]
}

// compare holds the compiled filters to what gVisor would enter without them.
func compare(all []part) error {
	if compiled == "" {
		return errors.New("none are built in")
	}
	have, err := decodeFilters(compiled)
	if err != nil {
		return err
	}
	for _, p := range all {
		program, ok := have.of(p.name)[p.key]
		if !ok {
			return fmt.Errorf("%s: none for %s", p.name, strings.Join(strings.Fields(p.key), " "))
		}
		ours, err := program.RenderInstructions(p.vars)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		theirs, _, err := p.own().Build()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if !slices.Equal(ours, []bpf.Instruction(theirs)) {
			return fmt.Errorf("%s: another filter is built in", p.name)
		}
		fmt.Printf("%s %d instructions\n", p.name, len(ours))
	}
	return nil
}
