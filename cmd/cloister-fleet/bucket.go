package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/audit"
	"cloister/audit/bucket"
	"cloister/cmd/cloister/cli"
	"cloister/guardian/folders"
	"cloister/serve/tenants"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/spf13/cobra"
)

// bucketFlags are the flags of ship and fetch, as typed.
type bucketFlags struct {
	bucket, region, ca, tenant string
}

func (f *bucketFlags) add(c *cobra.Command) *cobra.Command {
	fl := c.Flags()
	fl.StringVar(&f.bucket, "bucket", "", "`URL` of the bucket, https://HOST/BUCKET[/PREFIX]")
	fl.StringVar(&f.region, "region", "us-east-1", "the bucket's region")
	fl.StringVar(&f.ca, "ca", "", "a `FILE` with the authorities of its certificate; the machine's unless said")
	fl.StringVar(&f.tenant, "tenant", "", "the record of this tenant of cloister serve, not the person's own")
	return c
}

const credentialsHint = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment say who it is"

func shipCommand(a *cli.App) *cobra.Command {
	f := &bucketFlags{}
	var every time.Duration
	c := &cobra.Command{
		Use:   "ship --bucket URL",
		Short: "Copy the record to an S3 bucket, what is new of it",
		Long: `Prove the record and copy what is new of it to an S3 bucket: whole lines as objects that are
written once, then the head that they end with, sealed by the guardian. No key leaves. ` + credentialsHint + `.`,
		Example: "  cloister-fleet ship --bucket https://s3.example.com/records/host-1 --every 1m",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 0 {
				return cli.Usage("", "ship: --every cannot be negative")
			}
			one, err := f.copy(a, "ship")
			if err != nil {
				return err
			}
			return ship(cmd.Context(), a, one, every)
		},
	}
	c.Flags().DurationVar(&every, "every", 0, "go on, so often; once unless said")
	return f.add(c)
}

// ship ships once, or again and again until the context ends: then an error is said, and tried again.
func ship(ctx context.Context, a *cli.App, one *bucket.Copy, every time.Duration) error {
	for {
		sent, err := one.Ship(ctx)
		_, bad := errors.AsType[*audit.BadRecord](err)
		switch {
		case err == nil && (sent.Pieces > 0 || every == 0):
			a.Line("record %d is in the bucket: %d bytes in %s sent", sent.Record, sent.Bytes,
				cli.Count(sent.Pieces, "object"))
			if err := a.Out.Flush(); err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
		case bad, err != nil && every == 0:
			return err
		case err != nil && ctx.Err() == nil:
			a.Notice("cloister-fleet: %v; tried again in %s", err, every)
		}
		if every == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

func fetchCommand(a *cli.App) *cobra.Command {
	f := &bucketFlags{}
	var file string
	c := &cobra.Command{
		Use:   "fetch --bucket URL DIR",
		Short: "Fetch the copy of a record from an S3 bucket, and prove it",
		Long: `Write the bucket's copy of the record into a folder that does not exist, and prove it by the
guardian's keys: that no line was changed, removed or reordered, and that it reaches the newest head that this
machine noted when it was sent. ` + credentialsHint + `.`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			one, err := f.copy(a, "fetch")
			if err != nil {
				return err
			}
			var anchors []audit.Anchor
			if file != "" {
				if anchors, err = audit.ReadAnchors(file); err == nil && len(anchors) == 0 {
					err = fmt.Errorf("fetch: --anchors: %s holds no anchor", file)
				}
				if err != nil {
					return err
				}
			}
			r, err := one.Fetch(cmd.Context(), words[0], anchors...)
			if err != nil {
				return err
			}
			a.Line("%s in %s, unbroken; head %s", cli.Count(r.Records, "record"), cli.Count(r.Segments, "file"), r.Head)
			for _, o := range r.Outside {
				a.Line("it holds the head of %s: record %d", o.Where, o.Seq)
			}
			return nil
		},
	}
	c.Flags().StringVar(&file, "anchors", "", "the copy must also hold the anchors in `FILE`")
	return f.add(c)
}

// client checks the words, and gives what speaks to the bucket.
func (f *bucketFlags) client(a *cli.App, verb string) (_ *minio.Client, name, prefix string, err error) {
	no := func(err error) (*minio.Client, string, string, error) { return nil, "", "", err }
	u, err := url.Parse(f.bucket)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return no(cli.Usage("such as https://s3.example.com/records", "%s: --bucket %q: want a URL of https", verb,
			f.bucket))
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && (ip == nil || !ip.IsLoopback()) {
		return no(cli.Usage("name https, or a server at 127.0.0.1",
			"%s: --bucket %s: beyond the loopback what is written would be sent in the clear", verb, f.bucket))
	}
	name, prefix, _ = strings.Cut(strings.Trim(u.Path, "/"), "/")
	if name == "" {
		return no(cli.Usage("such as https://s3.example.com/records", "%s: --bucket %s names no bucket", verb,
			f.bucket))
	}
	id, secret := a.Env.Get("AWS_ACCESS_KEY_ID"), a.Env.Get("AWS_SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return no(cli.Usage(credentialsHint, "%s: there are no credentials for the bucket", verb))
	}
	transport := &http.Transport{ResponseHeaderTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return no(fmt.Errorf("%s: --ca: %w", verb, err))
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return no(cli.Usage("", "%s: --ca %s holds no certificate", verb, f.ca))
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(id, secret, a.Env.Get("AWS_SESSION_TOKEN")), Secure: u.Scheme == "https",
		Region: f.region, Transport: bucket.Bounded(transport), BucketLookup: minio.BucketLookupPath, MaxRetries: 3,
	})
	if err != nil {
		return no(fmt.Errorf("%s: %w", verb, err))
	}
	return client, name, first(prefix, "cloister"), nil
}

// copy is the record that the words name, with its bucket.
func (f *bucketFlags) copy(a *cli.App, verb string) (*bucket.Copy, error) {
	client, name, prefix, err := f.client(a, verb)
	if err != nil {
		return nil, err
	}
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	out := &bucket.Copy{Client: client, Bucket: name, Prefix: prefix, Dir: folders.Audit(d)}
	ledger := "own"
	if f.tenant != "" {
		if err := tenants.CheckName(f.tenant); err != nil {
			return nil, cli.Usage("", "%s: --tenant: %v", verb, err)
		}
		out.Dir = filepath.Join(d.Data, "serve", "t", f.tenant, "state", "cloister", "audit")
		out.Prefix, ledger = out.Prefix+"/t/"+f.tenant, "tenant-"+f.tenant
	}
	out.Ledger = filepath.Join(d.State, "shipped", ledger+".json")
	return out, nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
