package tree_test

import (
	"archive/tar"
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"cloister/sandbox/kubernetes/tree"
)

// endless counts what was read of a text that does not end.
type endless struct {
	begin io.Reader
	read  int64
	most  int64
}

func (e *endless) Read(p []byte) (int, error) {
	n, err := e.begin.Read(p)
	if err == io.EOF {
		n, err = len(p), nil
		clear(p)
	}
	if e.read += int64(n); e.read > e.most {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// heads writes entries without what follows them.
func heads(t *testing.T, list ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	for _, h := range list {
		h.Format, h.Mode, h.Typeflag = tar.FormatPAX, 0o644, tar.TypeReg
		w := tar.NewWriter(&b)
		do(t, w.WriteHeader(&h))
		if h.Size > 0 && h.Size < 512 {
			_, err := w.Write(make([]byte, h.Size))
			do(t, err, w.Flush())
		}
	}
	return &b
}

// TestBounds takes no more than is said, whatever sizes an archive names.
func TestBounds(t *testing.T) {
	sparse := map[string]string{"CLOISTER.sparse": "15000000000000"}
	for name, list := range map[string][]tar.Header{
		"large":              {{Name: "0/x", Size: 65 << 30}},
		"more than a number": {{Name: "0/a", Size: 1}, {Name: "0/x", Size: math.MaxInt64}},
		"sparse":             {{Name: "0/x", PAXRecords: sparse}},
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, map[string]string{"a": "1"})
			write(t, p.at("store/upper/kept"), "2")
			in := &endless{begin: heads(t, list...), most: 8 << 20}
			if _, err := tree.Receive(in, []tree.Tree{p.tree}); err == nil {
				t.Error("it is taken")
			}
			if in.read > in.most {
				t.Errorf("%d bytes of it were read", in.read)
			}
			if got := p.changes(); got != "added kept" {
				t.Errorf("the layer is another: %s", got)
			}
			if left, err := os.ReadDir(p.at("store/work")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestPackBounds gives up in the pod, where a program made a file that seems larger than what is taken:
// the host would read zeros for hours else.
func TestPackBounds(t *testing.T) {
	p := begin(t, map[string]string{"a": "1"})
	root, copies := p.fill()
	write(t, filepath.Join(root, "x"), "")
	do(t, os.Truncate(filepath.Join(root, "x"), 65<<30))
	out := &endless{begin: bytes.NewReader(nil), most: 8 << 20}
	if _, err := copies.Pack(count{out}); err == nil || out.read > 0 {
		t.Errorf("%v after %d bytes", err, out.read)
	}
	do(t, os.Truncate(filepath.Join(root, "x"), 1))
	if same, err := copies.Pack(io.Discard); err != nil || same {
		t.Errorf("smaller again: %v, %v", same, err)
	}
}

// count takes as much as an endless text gives.
type count struct{ *endless }

func (c count) Write(p []byte) (int, error) { return c.Read(p) }
