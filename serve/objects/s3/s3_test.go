package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/audit/bucket"
	"cloister/serve/objects"
	"cloister/serve/objects/objectstest"
	"cloister/serve/objects/s3"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// open gives a client of a double, by its program's side.
func open(t *testing.T, timeout time.Duration) (*objects.Client, *objectstest.Server) {
	t.Helper()
	server := objectstest.New()
	t.Cleanup(server.Close)
	client, err := minio.New(strings.TrimPrefix(server.URL, "https://"), &minio.Options{
		Creds: credentials.NewStaticV4("a", "b", ""), Region: "us-east-1", Secure: true, MaxRetries: 1,
		BucketLookup: minio.BucketLookupPath,
		Transport:    bucket.Bounded(server.Transport()),
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &s3.Bucket{Client: client, Bucket: objectstest.Name, Prefix: "here", Timeout: timeout}
	c := &objects.Client{Dial: func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		go func() { _ = b.Serve(context.WithoutCancel(t.Context()), theirs) }() // until ours is closed
		return ours, nil
	}}
	t.Cleanup(c.Close)
	return c, server
}

// TestObjects puts, reads, lists and removes, by the whole way.
func TestObjects(t *testing.T) {
	c, server := open(t, 0)
	ctx := t.Context()
	text := bytes.Repeat([]byte{0, 1, 2, 255}, 1<<20)
	for _, name := range []string{"cell/one/a", "cell/one/b", "cell/two/a"} {
		if err := c.Put(ctx, name, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Put(ctx, "cell/one/a", []byte("again")); err != nil { // what was there is not kept
		t.Error(err)
	}
	if got, err := c.Get(ctx, "cell/one/a", 100); err != nil || string(got) != "again" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.Get(ctx, "cell/two/a", len(text)); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := c.Get(ctx, "cell/two/a", len(text)-1); !errors.Is(err, objects.ErrLarge) {
		t.Errorf("larger: %v", err)
	}
	if _, err := c.Get(ctx, "cell/two/none", 1); !errors.Is(err, objects.ErrMissing) {
		t.Errorf("missing: %v", err)
	}
	for folder, want := range map[string][]string{"cell/": {"one/", "two/"}, "cell/one/": {"a", "b"}, "none/": nil} {
		if got, err := c.List(ctx, folder); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s: %v, %v", folder, got, err)
		}
	}
	if err := c.Remove(ctx, "cell/one/a", "cell/one/b", "cell/none"); err != nil {
		t.Error(err)
	}
	for name := range server.Objects() {
		if name != "here/cell/two/a" {
			t.Errorf("left: %s", name)
		}
	}
}

// TestSick: a bucket that hangs, does not end, is full or goes away is an error within the bound, and the next call is as
// any other.
func TestSick(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // returning is an answer, 200, which may come before the caller has hung up
	}
	put := func(c *objects.Client) error { return c.Put(t.Context(), "x", []byte("text")) }
	get := func(c *objects.Client) error { _, err := c.Get(t.Context(), "x", 100); return err }
	list := func(c *objects.Client) error { _, err := c.List(t.Context(), "f/"); return err }
	for name, c := range map[string]struct {
		call   func(*objects.Client) error
		answer http.HandlerFunc
		want   string
	}{
		"a write that hangs":   {put, hang, "in time"},
		"a read that hangs":    {get, hang, "in time"},
		"a listing that hangs": {list, hang, "in time"},
		"a read that trickles": {get, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		}, "in time"},
		"a listing of pages without an end": {list, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></ListBucketResult>")
		}, "in time"},
		"a full one": {put, func(w http.ResponseWriter, _ *http.Request) {
			objectstest.Refuse(w, http.StatusInsufficientStorage, "XMinioStorageFull")
		}, "XMinioStorageFull"},
		"a wrong key": {get, func(w http.ResponseWriter, _ *http.Request) {
			objectstest.Refuse(w, http.StatusForbidden, "AccessDenied")
		}, "Access Denied"},
		"one that sends elsewhere": {get, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, server := open(t, 500*time.Millisecond)
			if err := errors.Join(put(b), get(b), list(b)); err != nil {
				t.Fatalf("the control: %v", err)
			}
			server.Before(func(w http.ResponseWriter, r *http.Request) bool {
				_, _ = io.Copy(io.Discard, r.Body) // what of it comes
				c.answer(w, r)
				return true
			})
			if err := c.call(b); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			server.Before(nil)
			if err := errors.Join(put(b), get(b), list(b)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestCallEnds: a call ends with its context, and a program that is gone is started again.
func TestCallEnds(t *testing.T) {
	c, server := open(t, time.Minute)
	server.Before(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "x", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	server.Before(nil)
	hung, ended := make(chan struct{}), make(chan struct{})
	server.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // what of it comes
		close(hung)
		<-r.Context().Done()
		close(ended)
		return true
	})
	go func() { _ = c.Put(t.Context(), "x", nil) }() // it ends with the connection
	<-hung
	c.Close()
	<-ended
	server.Before(nil)
	if err := c.Put(t.Context(), "x", nil); err != nil {
		t.Errorf("after the connection was closed: %v", err)
	}
}
