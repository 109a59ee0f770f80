// Package s3 answers for the objects of serve/objects with an S3 bucket.
//
// The promise: each request has a bound in time and size, also a listing whose pages do not end, and none is followed
// elsewhere. What comes back is handed on as it came.
//
// It is linked into cloister-fleet alone (docs/decisions/0101), and keeps no key of a server.
//
// Most readers want [Bucket.Serve].
package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"strings"
	"time"

	"cloister/serve/objects"

	"github.com/minio/minio-go/v7"
)

// Bucket is one, with a prefix of all names.
type Bucket struct {
	Client *minio.Client
	Bucket string
	Prefix string
	// Timeout bounds one request, and a whole listing; 2 min when 0.
	Timeout time.Duration

	ctx context.Context // ends when the connection does
}

// Bounds of one call.
const (
	longest   = 2 * time.Minute
	mostNames = 1_000_000
)

var errHangs = errors.New("the bucket does not answer in time")

// Serve answers a client until its connection ends.
func (b *Bucket) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.ctx = ctx
	s := rpc.NewServer()
	if err := s.RegisterName(objects.Service, &methods{b}); err != nil {
		return err
	}
	s.ServeConn(ending{conn, stop})
	return nil
}

// ending ends what is under way with the connection: a server that was killed sends nothing more.
type ending struct {
	io.ReadWriteCloser
	stop func()
}

// Read reads, and ends all at the end.
func (e ending) Read(p []byte) (int, error) {
	n, err := e.ReadWriteCloser.Read(p)
	if err != nil {
		e.stop()
	}
	return n, err
}

// methods are what a client may call.
type methods struct{ b *Bucket }

// do carries out one call.
func (m *methods) do(out *objects.Answer, f func(context.Context) error) error {
	ctx, stop := context.WithTimeoutCause(m.b.ctx, cmp.Or(m.b.Timeout, longest), errHangs)
	defer stop()
	err := f(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, objects.ErrLarge):
		out.Kind = objects.IsLarge
	case minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		out.Kind = objects.IsMissing
	default:
		out.Kind, out.Why = objects.IsAway, err.Error()
		if errors.Is(context.Cause(ctx), errHangs) {
			out.Why = errHangs.Error()
		}
	}
	out.Text, out.Names = nil, nil
	return nil
}

func (m *methods) at(name string) string { return m.b.Prefix + "/" + name }

// Put writes an object.
func (m *methods) Put(in objects.Question, out *objects.Answer) error {
	return m.do(out, func(ctx context.Context) error {
		o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true, SendContentMd5: true}
		_, err := m.b.Client.PutObject(ctx, m.b.Bucket, m.at(in.Name), bytes.NewReader(in.Text), int64(len(in.Text)), o)
		return err
	})
}

// Get reads one.
func (m *methods) Get(in objects.Question, out *objects.Answer) error {
	return m.do(out, func(ctx context.Context) error {
		o, err := m.b.Client.GetObject(ctx, m.b.Bucket, m.at(in.Name), minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer func() { _ = o.Close() }() // it was only read
		out.Text, err = io.ReadAll(io.LimitReader(o, int64(in.Most)+1))
		if err == nil && len(out.Text) > in.Most {
			err = objects.ErrLarge
		}
		return err
	})
}

// List gives names.
func (m *methods) List(in objects.Question, out *objects.Answer) error {
	return m.do(out, func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop() // the listing ends with it
		folder := m.at(in.Name)
		for o := range m.b.Client.ListObjects(ctx, m.b.Bucket, minio.ListObjectsOptions{Prefix: folder}) {
			if o.Err != nil {
				return o.Err
			}
			name, below := strings.CutPrefix(o.Key, folder)
			if !below || name == "" {
				continue
			}
			if out.Names = append(out.Names, name); len(out.Names) > mostNames {
				return fmt.Errorf("the bucket lists more than %d objects", mostNames)
			}
		}
		return context.Cause(ctx)
	})
}

// Remove removes objects.
func (m *methods) Remove(in objects.Question, out *objects.Answer) error {
	return m.do(out, func(ctx context.Context) error {
		for _, name := range in.Names {
			err := m.b.Client.RemoveObject(ctx, m.b.Bucket, m.at(name), minio.RemoveObjectOptions{})
			if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
				return err
			}
		}
		return nil
	})
}
