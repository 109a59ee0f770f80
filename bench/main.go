// Command bench measures every budget of the design that exists, each beside
// its peers in the same run, so that a number can be believed on any machine.
//
// It promises that contenders take turns within one run, that medians of
// several rounds are told, that the raw figures stay in docs/bench with machine,
// kernel and commit, and that docs/performance.md says nothing which they do
// not hold. A peer that is missing is told as missing.
//
// It does not judge a change (script/test has a bound for the start), and it
// measures no program but through what a user has: the built binary.
//
// Most readers want: go run ./bench (as root it installs the peers).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cloister/bench/decide"
	"cloister/bench/least"
	"cloister/bench/listed"
)

// options are the words typed.
type options struct {
	only     string
	short    bool
	install  bool
	as       string
	binaries string
	out      string
	doc      bool
	million  bool
	quick    bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideWord {
		exit(inside(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == relayWord {
		exit(least.Relay(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == loopWord {
		exit(least.Loop(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == listed.Word {
		exit(listed.Inside(context.Background(), os.Args[2:]))
	}
	var o options
	flag.StringVar(&o.only, "only", "", "measure only these, separated by commas: "+strings.Join(names(), ","))
	flag.BoolVar(&o.short, "short", false, "few rounds and no peers that take long: proves the bench, not the product")
	flag.BoolVar(&o.install, "install", os.Getuid() == 0, "install the peers that are missing (needs root)")
	flag.StringVar(&o.as, "as", "", "as root: measure once more as this ordinary user")
	flag.StringVar(&o.binaries, "binaries", "", "use the binaries in this folder instead of building them")
	flag.StringVar(&o.out, "out", filepath.Join("docs", "bench"), "where the raw figures go; empty keeps none")
	flag.BoolVar(&o.doc, "doc", false, "only write docs/performance.md from the raw figures")
	flag.BoolVar(&o.million, "million", false, "kept workspaces over a project of a million files too, which takes minutes")
	flag.BoolVar(&o.quick, "quick", false, "of kept workspaces the project of the budgets alone, and three rounds of work in them: minutes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// a measurement fills in the series of one subject.
type measurement struct {
	name string
	run  func(context.Context, *world) error
}

func measurements() []measurement {
	return []measurement{
		{"version", measureVersion},
		{"start", measureStart},
		{"kernels", measureKernels},
		{"forked", measureForked},
		{"memory", measureMemory},
		{"tunnel", measureTunnel},
		{"dns", measureDNS},
		{"asks", measureAsks},
		{"inspected", measureInspected},
		{"streams", measureStreams},
		{"injected", measureInjected},
		{"idle", measureIdle},
		{"decide", func(ctx context.Context, w *world) error { return decide.Measure(ctx, w.rounds(15), w.raw.add) }},
		{"kept", measureKept},
		{"working", measureWorking},
		{"listed", measureListed},
		{"containers", measureContainers},
	}
}

func names() []string {
	var out []string
	for _, m := range measurements() {
		out = append(out, m.name)
	}
	return out
}

func run(ctx context.Context, o options) error {
	if o.doc {
		return writeDoc(".")
	}
	chosen := names()
	if o.only != "" {
		chosen = strings.Split(o.only, ",")
	}
	for _, name := range chosen {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("nothing is called %q: want %s", name, strings.Join(names(), ", "))
		}
	}
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	err = measureAll(ctx, w, chosen)
	err = errors.Join(err, w.close())
	fmt.Fprint(os.Stdout, w.raw.table())
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := w.keep(o.out); err != nil {
			return err
		}
	}
	if o.as != "" {
		if err := again(ctx, w, o); err != nil {
			return err
		}
	}
	if o.out != "" && o.binaries == "" {
		return writeDoc(".")
	}
	return nil
}

func measureAll(ctx context.Context, w *world, chosen []string) error {
	for _, m := range measurements() {
		if !slices.Contains(chosen, m.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", m.name)
		if err := m.run(ctx, w); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	return nil
}

// keep writes the raw figures to a file named for the day, the commit and who
// ran it.
func (w *world) keep(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep the figures: %w", err)
	}
	text, err := json.MarshalIndent(w.raw, "", " ")
	if err != nil {
		return fmt.Errorf("keep the figures: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.json", w.raw.Time.Format("20060102-150405"), w.raw.Commit[:min(8, len(w.raw.Commit))], w.raw.User))
	if err := os.WriteFile(path, append(compact(text), '\n'), 0o644); err != nil {
		return fmt.Errorf("keep the figures: %w", err)
	}
	return nil
}

// pages are written from the figures alone.
var pages = map[string]func(dir string) ([]byte, error){"performance.md": document, "time-figures.md": timeDocument,
	"lists-figures.md": listsDocument}

func writeDoc(root string) error {
	for page, of := range pages {
		text, err := of(filepath.Join(root, "docs", "bench"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, "docs", page), text, 0o644); err != nil {
			return fmt.Errorf("write docs/%s: %w", page, err)
		}
	}
	return nil
}
