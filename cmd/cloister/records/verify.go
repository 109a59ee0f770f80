package records

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"cloister/audit"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/guardian/folders"
	"cloister/internal/termsafe"

	"github.com/spf13/cobra"
)

func (a *Commands) auditVerify() *cobra.Command {
	var asJSON bool
	var file string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Prove that no record was changed, removed or cut off",
		Long: `Prove that no record was changed, removed, reordered or cut off, and say against whom
that is proven. Records are keyed by a secret of the guardian, which lies beside the
audit folder in audit-keys. Without it nobody can compute the hashes again; if it is
lost, records made with it can no longer be proven and the guardian does not continue
them: move both folders away, and a new record begins, which says so.`,
		Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			d, host, err := a.DirsAndResolver()
			if err == nil && file != "" {
				file, err = host.TypedNew(file)
			}
			if err != nil {
				return err
			}
			if file != "" {
				// What a person names is to be held against the record, not passed over.
				if anchors, err := audit.ReadAnchors(file); err == nil && len(anchors) == 0 {
					return fmt.Errorf("verify the audit: --anchors: %s holds no anchor", file)
				}
			} else {
				// Where the configuration cannot be read the record is still verified.
				if file, err = a.anchorFile(); err != nil {
					a.Notice("anchors outside are not looked at: %v", err)
				}
			}
			r, err := a.verified(folders.Audit(d), file)
			var bad *audit.BadRecord
			if err != nil && !errors.As(err, &bad) {
				return err
			}
			if asJSON {
				if jsonErr := a.JSON(verification(r, bad)); jsonErr != nil {
					return jsonErr
				}
			} else if bad == nil {
				a.Line("%s in %s, unbroken; head %s", cli.Count(r.Records, "record"), cli.Count(r.Segments, "file"),
					cli.OrDash(r.Head))
				for _, line := range r.Proves() {
					a.Line("%s", line)
				}
				if r.TornBytes > 0 {
					a.Notice("the last %d bytes are a record that is being written, or that a crash cut", r.TornBytes)
				}
			}
			if bad != nil {
				return fmt.Errorf("verify the audit: %w", bad)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().StringVar(&file, "anchors", "", "verify against the anchors in `FILE`, instead of audit.anchor_file")
	return c
}

// verified verifies the record in dir, also against a file of anchors where one is named.
func (a *Commands) verified(dir, file string) (audit.Report, error) {
	if file == "" {
		return audit.Verify(dir)
	}
	anchors, err := audit.ReadAnchors(file)
	if err != nil {
		return audit.Report{}, err
	}
	if len(anchors) == 0 {
		a.Notice("%s holds no anchor", termsafe.Text(file))
	}
	return audit.Verify(dir, anchors...)
}

// anchorFile is where the configuration says that anchors are.
func (a *Commands) anchorFile() (string, error) {
	c, err := a.auditConfig()
	return c.AnchorFile, err
}

// auditConfig is what the configuration says of the record.
func (a *Commands) auditConfig() (config.Audit, error) {
	d, host, err := a.DirsAndResolver()
	if err != nil {
		return config.Audit{}, err
	}
	c, _, err := config.Load(d.Config)
	if err != nil {
		return config.Audit{}, err
	}
	if rest, ok := strings.CutPrefix(c.Audit.AnchorFile, "~/"); ok {
		c.Audit.AnchorFile = filepath.Join(a.Env.Get("HOME"), rest)
	}
	if c.Audit.AnchorFile == "" {
		return c.Audit, nil
	}
	if c.Audit.AnchorFile, err = host.Written(c.Audit.AnchorFile); err != nil {
		return c.Audit, fmt.Errorf("audit.anchor_file: %w", err)
	}
	return c.Audit, nil
}

func (a *Commands) auditAnchor() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "anchor",
		Short: "Store the head of the record outside it",
		Long: `Verify the record, and append its head to a file, or give it to a program: what
audit.anchor_file and audit.anchor_command name. An anchor that this account cannot
change afterwards, on another machine or where only appending is allowed, proves every
record up to it also against somebody who has the guardian's keys. cloister audit verify
holds the record against the anchors of the file.`,
		Example: "  cloister audit anchor --file /mnt/worm/cloister-anchors.jsonl",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, host, err := a.DirsAndResolver()
			if err == nil && file != "" {
				file, err = host.TypedNew(file)
			}
			if err != nil {
				return err
			}
			to, err := a.auditConfig()
			if err != nil && file == "" {
				return err
			}
			if file != "" {
				to = config.Audit{AnchorFile: file}
			}
			if to.AnchorFile == "" && len(to.AnchorCommand) == 0 {
				return cli.Usage("name a file: cloister audit anchor --file FILE, or audit.anchor_file in config.yaml",
					"audit anchor: nowhere to store it")
			}
			dir := folders.Audit(d)
			r, err := a.verified(dir, to.AnchorFile)
			if err != nil {
				return cli.Hinted(fmt.Errorf("audit anchor: what does not verify is not anchored: %w", err),
					"see: cloister audit verify")
			}
			head, err := audit.Head(dir, r, time.Now())
			if err != nil {
				return err
			}
			return a.anchor(cmd.Context(), head, to)
		},
	}
	c.Flags().StringVar(&file, "file", "", "append to `FILE`, whatever the configuration says")
	return c
}

// anchor stores a head in every place that is named.
func (a *Commands) anchor(ctx context.Context, head audit.Anchor, to config.Audit) error {
	if to.AnchorFile != "" {
		if err := audit.AppendAnchor(to.AnchorFile, head); err != nil {
			return err
		}
		a.Line("record %d anchored in %s; head %s", head.Seq, termsafe.Text(to.AnchorFile), head.Hash)
	}
	if len(to.AnchorCommand) == 0 {
		return nil
	}
	text, err := head.Line()
	if err != nil {
		return err
	}
	run, err := a.Program(ctx, to.AnchorCommand[0], to.AnchorCommand[1:]...)
	if err != nil {
		return cli.Hinted(fmt.Errorf("audit anchor: %w", err), cli.HintsOf(err)...)
	}
	run.Stdin, run.Stderr = bytes.NewReader(text), a.Stderr
	if err := run.Run(); err != nil {
		return fmt.Errorf("audit anchor: %s: %w", to.AnchorCommand[0], err)
	}
	a.Line("record %d anchored by %s; head %s", head.Seq, termsafe.Text(to.AnchorCommand[0]), head.Hash)
	return nil
}

type verified struct {
	OK        bool           `json:"ok"`
	Records   uint64         `json:"records"`
	Segments  int            `json:"segments"`
	Head      string         `json:"head"`
	Anchored  uint64         `json:"anchored"`
	TornBytes int64          `json:"torn_bytes"`
	Unkeyed   uint64         `json:"unkeyed"` // records from before there were keys
	Keys      []string       `json:"keys"`
	KeysDir   string         `json:"keys_dir,omitempty"`
	Outside   []audit.Agreed `json:"outside"`
	Proves    []string       `json:"proves"`
	Bad       *badRecord     `json:"bad"`
}

type badRecord struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Seq    uint64 `json:"seq"`
	Reason string `json:"reason"`
}

func verification(r audit.Report, bad *audit.BadRecord) verified {
	v := verified{
		OK: bad == nil, Records: r.Records, Segments: r.Segments, Head: r.Head, Anchored: r.Anchored, TornBytes: r.TornBytes,
		Unkeyed: r.Unkeyed, Keys: append([]string{}, r.Keys...), KeysDir: r.KeysDir,
		Outside: append([]audit.Agreed{}, r.Outside...), Proves: []string{},
	}
	if bad != nil {
		v.Bad = &badRecord{bad.File, bad.Line, bad.Seq, bad.Reason}
		return v
	}
	v.Proves = append(v.Proves, r.Proves()...)
	return v
}
