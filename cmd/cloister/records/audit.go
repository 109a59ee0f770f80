package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloister/audit"
	"cloister/audit/ocsf"
	"cloister/cmd/cloister/cli"
	"cloister/guardian/folders"
	"cloister/internal/nearest"
	"cloister/internal/termsafe"

	"github.com/spf13/cobra"
)

func (a *Commands) AuditCommand() *cobra.Command {
	return cli.Group("audit", "Read and prove the record of what every cloister asked for",
		a.auditTail(), a.auditShow(), a.auditVerify(), a.auditAnchor(), a.auditExport())
}

// EachEvent reads what is recorded. A record that cannot be read is reported and
// makes the command fail at its end, but does not hide those after it.
func (a *Commands) EachEvent(dir string, f audit.Filter, tell func(audit.Line)) error {
	var bad []error
	for e, err := range audit.Lines(dir, f) {
		if err != nil {
			bad = append(bad, err)
			continue
		}
		tell(e)
	}
	const most = 5
	if len(bad) > most {
		bad = append(bad[:most:most], fmt.Errorf("and %d more records that cannot be read", len(bad)-most))
	}
	if len(bad) == 0 {
		return nil
	}
	return cli.Hinted(errors.Join(bad...), "cloister audit verify tells where the chain breaks")
}

// NoSession is the error for a name of which nothing is on record; nil where something is, or no name was given.
func (a *Commands) NoSession(verb, dir, name string) error {
	if name == "" {
		return nil
	}
	of, names := audit.Filter{Session: name}, map[string]bool{}
	for e, err := range audit.Lines(dir, audit.Filter{}) {
		if err == nil && of.Match(e.Event) {
			return nil
		}
		if err == nil && e.Session != "" {
			names[e.Session] = true
		}
	}
	hint := "cloister list -a lists cloisters, those that ended too"
	if near := nearest.Word(name, slices.Sorted(maps.Keys(names))); near != "" {
		hint = "did you mean " + near + "?"
	}
	return cli.Hinted(fmt.Errorf("%s: nothing is on record of a session %q", verb, name), hint)
}

// follow tells events until the person has seen enough.
func (a *Commands) follow(ctx context.Context, dir string, f audit.Filter, tell func(audit.Line)) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var bad []error
	for e, err := range audit.Follow(ctx, dir, f) {
		if err != nil {
			a.Complain(err)
			bad = append(bad, err)
			continue
		}
		tell(e)
		if err := a.Out.Flush(); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
	}
	if len(bad) > 0 {
		return &cli.StatusError{Status: cli.StatusFailed} // printed as they came
	}
	return nil
}

func (a *Commands) auditTail() *cobra.Command {
	var (
		follow, asJSON         bool
		session, kind, verdict string
		since                  time.Duration
		last                   int
	)
	c := &cobra.Command{
		Use:   "tail [flags]",
		Short: "Print the newest events",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			f := audit.Filter{Session: session, Kind: kind, Verdict: verdict, Last: last}
			if err := checkFilter(f); err != nil {
				return err
			}
			if since < 0 || last < 0 {
				return cli.Usage("", "audit tail: --since and --last cannot be negative")
			}
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			if (since > 0 || session != "") && !cmd.Flags().Changed("last") {
				f.Last = 0
			}
			tell := func(l audit.Line) { a.Line("%s", eventLine(l.Event, true)) }
			if asJSON {
				tell = a.jsonLine
			}
			none := a.NoSession("audit tail", folders.Audit(d), session)
			if follow {
				if none != nil { // it may come
					a.Notice("%v", none)
				}
				return a.follow(cmd.Context(), folders.Audit(d), f, tell)
			}
			return errors.Join(none, a.EachEvent(folders.Audit(d), f, tell))
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as events come")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	c.Flags().StringVar(&session, "session", "", "only this `NAME`")
	c.Flags().StringVar(&kind, "kind", "", "only this `KIND`")
	c.Flags().StringVar(&verdict, "verdict", "", "only `VERDICT`: allow, ask or deny")
	c.Flags().DurationVar(&since, "since", 0, "only events younger than this, such as 10m")
	c.Flags().IntVarP(&last, "last", "n", 50, "so many of the newest; 0 means all (with --since or --session: all)")
	return a.completesFilter(c)
}

func (a *Commands) completesFilter(c *cobra.Command) *cobra.Command {
	fixed := func(words []string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	session := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.SessionNames(cmd.Context(), true), cobra.ShellCompDirectiveNoFileComp
	}
	// An error means that the flag does not exist; the stories would show it.
	_ = c.RegisterFlagCompletionFunc("session", session)
	_ = c.RegisterFlagCompletionFunc("kind", fixed(audit.Kinds()))
	_ = c.RegisterFlagCompletionFunc("verdict", fixed(verdicts()))
	return c
}

func verdicts() []string { return []string{"allow", "ask", "deny"} }

func checkFilter(f audit.Filter) error {
	for _, w := range []struct {
		flag, word string
		words      []string
	}{{"--kind", f.Kind, audit.Kinds()}, {"--verdict", f.Verdict, verdicts()}} {
		if w.word == "" || slices.Contains(w.words, w.word) {
			continue
		}
		hint := "it is one of " + strings.Join(w.words, ", ")
		if near := nearest.Word(w.word, w.words); near != "" {
			hint = "did you mean " + near + "?"
		}
		return cli.Usage(hint, "%s: there is no %q", w.flag, w.word)
	}
	return nil
}

// jsonLine prints one event as it is recorded, with nothing that a terminal obeys.
func (a *Commands) jsonLine(l audit.Line) {
	a.Out.Write(termsafe.JSON(l.Text))
	a.Out.WriteByte('\n')
}

func (a *Commands) auditShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show SEQ",
		Short: "Print one event in full",
		Args:  cli.Args(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			seq, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return cli.Usage("cloister audit tail --json shows the numbers", "audit show: %q is not an event's number",
					args[0])
			}
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			for e, err := range audit.Lines(folders.Audit(d), audit.Filter{}) {
				if err == nil && e.Seq == seq {
					return a.showEvent(e, asJSON)
				}
			}
			return cli.Hinted(fmt.Errorf("audit show: there is no event %d", seq),
				"cloister audit tail --json shows the numbers")
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *Commands) showEvent(l audit.Line, asJSON bool) error {
	if asJSON {
		return a.JSON(json.RawMessage(l.Text))
	}
	// The event's own order of members, less the empty ones.
	dec := json.NewDecoder(bytes.NewReader(l.Text))
	dec.UseNumber()
	var rows [][]string
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("write the event: %w", err)
	}
	for dec.More() {
		key, err := dec.Token()
		value, valueErr := dec.Token()
		if err := errors.Join(err, valueErr); err != nil {
			return fmt.Errorf("write the event: %w", err)
		}
		if text := fmt.Sprint(value); text != "" {
			rows = append(rows, []string{fmt.Sprint(key), text})
		}
	}
	a.Table(rows)
	return nil
}

// formats are how a line of the record can be printed.
var formats = map[string]func(audit.Line) ([]byte, error){
	"jsonl": func(l audit.Line) ([]byte, error) { return l.Text, nil },
	"ocsf": func(l audit.Line) ([]byte, error) {
		text, err := json.Marshal(ocsf.Of(l.Event))
		return termsafe.JSON(text), err
	},
}

// auditExport prints the record itself: a line here is the line there, so that
// whoever gets it can compute the hashes again.
func (a *Commands) auditExport() *cobra.Command {
	var f audit.Filter
	var since time.Duration
	var format string
	c := &cobra.Command{
		Use:   "export",
		Short: "Print the record itself, as JSON lines",
		Long: `Print the record itself, oldest first: each event as the line of JSON that was
written, byte for byte, with its hash and that of the one before. --format ocsf prints each as
an event of the Open Cybersecurity Schema Framework, which names the record's line by its hash.`,
		Example: "  cloister audit export --since 24h --verdict deny >denied.jsonl\n" +
			"  cloister audit export --format ocsf >events.jsonl",
		Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			if err := checkFilter(f); err != nil {
				return err
			}
			if since < 0 {
				return cli.Usage("", "audit export: --since cannot be negative")
			}
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			line, ok := formats[format]
			if !ok {
				return cli.Usage("it is one of jsonl, ocsf", "audit export: --format: there is no %q", format)
			}
			if err := a.NoSession("audit export", folders.Audit(d), f.Session); err != nil {
				return err
			}
			var failed error
			err = a.EachEvent(folders.Audit(d), f, func(l audit.Line) {
				text, err := line(l)
				failed = errors.Join(failed, err)
				a.Out.Write(text)
				a.Out.WriteByte('\n')
			})
			return errors.Join(err, failed)
		},
	}
	c.Flags().StringVar(&format, "format", "jsonl", "`FORMAT`: jsonl, the record itself, or ocsf")
	words := slices.Sorted(maps.Keys(formats))
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().StringVar(&f.Session, "session", "", "only this `NAME`")
	c.Flags().StringVar(&f.Kind, "kind", "", "only this `KIND`")
	c.Flags().StringVar(&f.Verdict, "verdict", "", "only `VERDICT`: allow, ask or deny")
	c.Flags().DurationVar(&since, "since", 0, "only events younger than this, such as 10m")
	return a.completesFilter(c)
}
