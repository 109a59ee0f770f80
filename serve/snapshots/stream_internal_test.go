package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"cloister/serve/tenants"
)

// held is a bucket with sealed chunks.
type held map[string][]byte

func (h held) Put(context.Context, string, []byte) error                 { return nil }
func (h held) List(context.Context, string) ([]string, error)            { return nil, nil }
func (h held) Remove(context.Context, ...string) error                   { return nil }
func (h held) Get(_ context.Context, name string, _ int) ([]byte, error) { return h[name], nil }

// TestGivenUpIsNoEnd: a stream whose context ended in the midst of it is an error, and never a shorter snapshot: an
// archive that ends between two files looks whole.
func TestGivenUpIsNoEnd(t *testing.T) {
	keys := &Keys{list: []key{{"k", make([]byte, keyBytes)}}}
	seal, err := keys.of("k", "cell", tenants.Tenant{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	bucket, m := held{}, &manifest{cell: "cell"}
	for i := range 40 {
		text := fmt.Appendf(nil, "chunk %d", i)
		one := chunk{Name: seal.name(text), In: "snapaaaaaaaaaaaaaaaa", Size: len(text)}
		bucket[one.place("cell")] = seal.seal(one.place("cell"), text)
		m.Chunks = append(m.Chunks, one)
	}
	whole := newReader(t.Context(), bucket, seal, m, nil)
	all, err := io.ReadAll(whole)
	if err = errors.Join(err, whole.Close()); err != nil || len(all) == 0 {
		t.Fatalf("the control: %d bytes, %v", len(all), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := newReader(ctx, bucket, seal, m, nil)
	stop()
	got, err := io.ReadAll(r)
	if err == nil {
		t.Errorf("%d of %d bytes are taken for all", len(got), len(all))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
