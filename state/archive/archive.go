// Package archive writes the layers of one checkpoint into one file, and makes layers of such
// a file again: a tar in zstd that ends with a sum of what it says.
//
// The promise: an archive is not believed. Whatever it says, nothing is written beside the
// layers that are made of it (package layers looks at each entry), it is bounded, and where it
// is not whole or the disk is full those layers are gone again. It does not know workspaces:
// what a checkpoint is, the caller knows.
//
// Most readers want [Read].
package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"cloister/internal/exactjson"
	"cloister/state/layers"
	"cloister/state/parts"
	"cloister/state/quota"
)

// Head is the first entry of an archive: what it was made of.
type Head struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Project string    `json:"project"`
	Agent   string    `json:"agent,omitempty"`
	Message string    `json:"message,omitempty"`
	Time    time.Time `json:"time"`
	Layers  int       `json:"layers"`
}

const (
	version   = 1
	headEntry = "cloister-checkpoint.json"
	sumEntry  = "cloister-sum"
	maxHead   = 64 << 10
	maxLayers = 500 // overlayfs takes no more
	// maxEntries and MaxBytes bound what an archive may bring.
	maxEntries = 2_000_000
	// What an import leaves on the disk: bytes, and files where the file system counts them.
	leaveFree  = 256 << 20
	leaveFiles = 10_000
)

// MaxBytes bounds what an archive may bring, where no quota leaves less.
const MaxBytes = 256 << 30

// Write writes layers, the newest first, with the private home unless withHome is false. It
// sets the head's Version and Layers itself.
func Write(out io.Writer, head Head, from parts.Folder, list []string, withHome bool) error {
	z, err := zstd.NewWriter(out)
	if err != nil {
		return err
	}
	a := &archiver{tar: tar.NewWriter(z), sum: sha256.New()}
	head.Version, head.Layers = version, len(list)
	text, err := exactjson.Marshal(head)
	if err == nil {
		err = a.text(headEntry, text)
	}
	p := &layers.Packer{Tar: a.tar, Seen: a.seen}
	for i, layer := range list {
		for _, of := range parts.All() {
			at := from.At(layer, of)
			if err != nil || of == parts.Home && !withHome {
				continue
			}
			var there bool
			if there, err = layers.Exists(at); err != nil || !there {
				continue
			}
			err = p.Pack(at, strconv.Itoa(i)+"/"+string(of))
		}
	}
	if err == nil {
		err = a.text(sumEntry, []byte(hex.EncodeToString(a.sum.Sum(nil))))
	}
	return errors.Join(err, a.tar.Close(), z.Close())
}

// archiver sums up what an archive says, whatever its bytes are.
type archiver struct {
	tar *tar.Writer
	sum hash.Hash
}

func (a *archiver) text(name string, text []byte) error {
	h := &tar.Header{
		Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text)), ModTime: time.Unix(0, 0),
		Format: tar.FormatPAX,
	}
	out := a.seen(h)
	err := a.tar.WriteHeader(h)
	if err == nil {
		_, err = io.MultiWriter(a.tar, out).Write(text)
	}
	return err
}

func (a *archiver) seen(h *tar.Header) io.Writer {
	fmt.Fprintf(a.sum, "%q %c %o %d %q %d %q\n", h.Name, h.Typeflag, h.Mode, h.Size, h.Linkname, h.ModTime.UnixNano(),
		h.PAXRecords["CLOISTER.sparse"]+h.PAXRecords["CLOISTER.opaque"])
	return a.sum
}

// Bad is the error for a file that is no archive of a checkpoint, or not whole.
type Bad struct{ Why string }

// Error says what is wrong.
func (b *Bad) Error() string { return "it is no whole archive of a checkpoint: " + b.Why }

// Read makes layers of what Write wrote, named by newID, the newest first; none where it
// fails. most bounds their bytes.
func Read(ctx context.Context, in io.Reader, to parts.Folder, newID func() string, most int64) (Head, []string, error) {
	z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return Head{}, nil, err
	}
	defer z.Close()
	im := &importer{
		ctx: ctx, to: to, newID: newID, tar: tar.NewReader(z), archiver: archiver{sum: sha256.New()}, most: most,
	}
	if err := im.all(); err != nil {
		return Head{}, nil, errors.Join(err, im.undo())
	}
	return im.head, im.layers, nil
}

// Remove takes layers away that Read made and no workspace names.
func Remove(from parts.Folder, list []string) (err error) {
	for _, id := range list {
		err = errors.Join(err, layers.RemoveAll(from.Dir, id))
	}
	return err
}

type importer struct {
	archiver

	ctx     context.Context // of the one call that it lives for
	to      parts.Folder
	newID   func() string
	tar     *tar.Reader
	head    Head
	layers  []string
	open    *layers.Unpacker
	at      string // layer and part of open
	done    map[string]bool
	entries int
	bytes   int64
	most    int64 // bytes that a quota leaves
}

func (im *importer) undo() error {
	_ = im.close() // it goes as it is
	return Remove(im.to, im.layers)
}

func (im *importer) all() error {
	h, err := im.next()
	if err != nil || h.Name != headEntry || h.Typeflag != tar.TypeReg || h.Size > maxHead {
		return &Bad{"it does not begin as one"}
	}
	text, err := io.ReadAll(io.TeeReader(im.tar, im.sum))
	if err != nil || exactjson.Unmarshal(text, &im.head) != nil {
		return &Bad{"its first entry cannot be read"}
	}
	if im.head.Version != version {
		return fmt.Errorf("it has version %d; this program knows %d", im.head.Version, version)
	}
	if im.head.Layers < 0 || im.head.Layers > maxLayers {
		return &Bad{fmt.Sprintf("%d layers", im.head.Layers)}
	}
	for range im.head.Layers {
		id := im.newID()
		im.layers = append(im.layers, id)
		if err := im.to.Make(id); err != nil {
			return err
		}
	}
	return im.content()
}

// next reads the head of an entry.
func (im *importer) next() (*tar.Header, error) {
	if err := im.ctx.Err(); err != nil {
		return nil, err
	}
	h, err := im.tar.Next()
	if err != nil {
		return nil, err
	}
	if im.entries++; im.entries > maxEntries {
		return nil, &Bad{fmt.Sprintf("more than %d entries", maxEntries)}
	}
	if im.bytes += h.Size; h.Size >= 0 && im.bytes > im.most && im.most < MaxBytes {
		return nil, &quota.Bounded{Left: im.most}
	}
	if h.Size < 0 || im.bytes > MaxBytes {
		return nil, &Bad{fmt.Sprintf("more than %d bytes", int64(MaxBytes))}
	}
	if h.Name != sumEntry {
		im.seen(h)
	}
	return h, nil
}

func (im *importer) content() error {
	im.done = map[string]bool{}
	for {
		h, err := im.next()
		if errors.Is(err, io.EOF) {
			return &Bad{"it ends too early"}
		}
		if _, bounded := errors.AsType[*quota.Bounded](err); bounded {
			return err
		}
		if bad := (*Bad)(nil); err != nil && !errors.As(err, &bad) && im.ctx.Err() == nil {
			return &Bad{err.Error()}
		}
		if err != nil {
			return err
		}
		if h.Name == sumEntry {
			return im.finish(h)
		}
		if err := im.entry(h); err != nil {
			return err
		}
	}
}

func (im *importer) entry(h *tar.Header) error {
	layer, rest, _ := strings.Cut(h.Name, "/")
	of, rel, _ := strings.Cut(rest, "/")
	i, err := strconv.Atoi(layer)
	if err != nil || i < 0 || i >= len(im.layers) || strconv.Itoa(i) != layer || !slices.Contains(parts.All(),
		parts.Part(of)) {
		return &Bad{fmt.Sprintf("an entry %.80q", h.Name)}
	}
	under := layer + "/" + of
	if im.at != under {
		if err := im.close(); err != nil {
			return err
		}
		if im.done[under] {
			return &Bad{"parts of layers are mixed"}
		}
		im.done[under], im.at = true, under
		if im.open, err = layers.NewUnpacker(im.to.At(im.layers[i], parts.Part(of)), im.to.UID, im.to.GID); err != nil {
			return err
		}
	}
	if h.Typeflag == tar.TypeLink {
		to, ok := strings.CutPrefix(h.Linkname, under+"/")
		if !ok {
			return &Bad{fmt.Sprintf("a link to %.80q", h.Linkname)}
		}
		h.Linkname = to
	}
	if im.entries%256 == 0 || h.Size > 1<<20 {
		if err := im.room(h.Size); err != nil {
			return err
		}
	}
	h.Name = rel
	err = im.open.Add(h, io.TeeReader(&interruptible{im.ctx, im.tar}, im.sum))
	switch {
	case err == nil:
		return nil
	case im.ctx.Err() != nil, errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EIO):
		return err // that is not the archive's fault
	}
	return &Bad{err.Error()}
}

// room refuses what would fill the disk.
func (im *importer) room(more int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(im.to.Dir, &st); err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free-more < leaveFree {
		return fmt.Errorf("there are %d bytes left in %s: %w", free, filepath.Dir(im.to.Dir), unix.ENOSPC)
	}
	if st.Files > 0 && st.Ffree < leaveFiles {
		return fmt.Errorf("there is room for %d more files in %s: %w", st.Ffree, filepath.Dir(im.to.Dir), unix.ENOSPC)
	}
	return nil
}

// interruptible is a reader that ends with its context.
type interruptible struct {
	ctx context.Context // of the one call that it lives for
	in  io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}

func (im *importer) close() error {
	if im.open == nil {
		return nil
	}
	err := im.open.Finish()
	im.open = nil
	return err
}

func (im *importer) finish(h *tar.Header) error {
	if err := im.close(); err != nil {
		return err
	}
	want := []byte(hex.EncodeToString(im.sum.Sum(nil)))
	text, err := io.ReadAll(io.LimitReader(im.tar, int64(len(want))+1))
	if err != nil || h.Typeflag != tar.TypeReg || !bytes.Equal(text, want) {
		return &Bad{"its content is not what was summed up"}
	}
	if _, err := im.tar.Next(); !errors.Is(err, io.EOF) {
		return &Bad{"there is more after its end"}
	}
	return nil
}
