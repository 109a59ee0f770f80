package store

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
	"os"
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

// archiveHead is the first entry of an archive.
type archiveHead struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Project string    `json:"project"`
	Agent   string    `json:"agent,omitempty"`
	Message string    `json:"message,omitempty"`
	Time    time.Time `json:"time"`
	Layers  int       `json:"layers"`
}

const (
	archiveVersion = 1
	headEntry      = "cloister-checkpoint.json"
	sumEntry       = "cloister-sum"
	maxHead        = 64 << 10
	maxLayers      = 500 // overlayfs takes no more
	// maxEntries and maxImport bound what an archive may bring.
	maxEntries = 2_000_000
	maxImport  = 256 << 30
	// What an import leaves on the disk: bytes, and files where the file system counts them.
	leaveFree  = 256 << 20
	leaveFiles = 10_000
)

// Export writes a checkpoint into one file: a tar in zstd, with the private home unless
// withHome is false.
func (w *Workspace) Export(out io.Writer, id string, withHome bool) error {
	c, err := w.Checkpoint(id)
	if err == nil {
		err = w.verify(c)
	}
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(out)
	if err != nil {
		return err
	}
	a := &archiver{tar: tar.NewWriter(z), sum: sha256.New()}
	head, err := exactjson.Marshal(archiveHead{
		archiveVersion, w.Name, w.Project, w.Agent, c.Message, c.Time, len(c.Layers),
	})
	if err == nil {
		err = a.text(headEntry, head)
	}
	p := &layers.Packer{Tar: a.tar, Seen: a.seen}
	for i, layer := range c.Layers {
		for _, of := range parts.All() {
			from := w.store.in().At(layer, of)
			if err != nil || of == parts.Home && !withHome {
				continue
			}
			var there bool
			if there, err = layers.Exists(from); err != nil || !there {
				continue
			}
			err = p.Pack(from, strconv.Itoa(i)+"/"+string(of))
		}
	}
	if err == nil {
		err = a.text(sumEntry, []byte(hex.EncodeToString(a.sum.Sum(nil))))
	}
	if err = errors.Join(err, a.tar.Close(), z.Close()); err != nil {
		return fmt.Errorf("export checkpoint %s: %w", c.ID, err)
	}
	return nil
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

// BadArchive is the error for a file that is no archive of a checkpoint, or not whole.
type BadArchive struct{ Why string }

// Error says what is wrong.
func (b *BadArchive) Error() string { return "it is no whole archive of a checkpoint: " + b.Why }

// Import makes a workspace over a project of what Export wrote. The archive is not
// believed: see layers.Unpacker. sealed is notified of the checkpoint before it counts. It
// gives the name and project that the archive was made of.
func (s *Store) Import(
	ctx context.Context, in io.Reader, name, project string, sealed func(Checkpoint) error,
) (Checkpoint, string, error) {
	if !validName(name) {
		return Checkpoint{}, "", fmt.Errorf("import %q: not a name", name)
	}
	if s.Has(name) {
		return Checkpoint{}, "", fmt.Errorf("import: there is a workspace %s", name)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return Checkpoint{}, "", fmt.Errorf("import: %w", err)
	}
	// Against a collection of layers that nothing names yet.
	shared, err := lockFile(filepath.Join(s.dir, lockName), unix.LOCK_SH)
	if err != nil {
		return Checkpoint{}, "", err
	}
	defer func() { _ = shared.Close() }()
	z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return Checkpoint{}, "", err
	}
	defer z.Close()
	im := &importer{ctx: ctx, store: s, tar: tar.NewReader(z), archiver: archiver{sum: sha256.New()}}
	if err := s.room("import", nil, project, 0); err != nil {
		return Checkpoint{}, "", err
	}
	if im.most, err = s.left(project); err != nil {
		return Checkpoint{}, "", err
	}
	c, err := im.all()
	var m meta
	if err == nil {
		m, err = s.describe(name, project)
	}
	if err == nil {
		err = os.Mkdir(s.folder(name), 0o700)
		im.made = err == nil
	}
	if err == nil {
		w := &Workspace{meta: m, store: s, Sealed: sealed}
		w.Layers = c.Layers
		if agentName(im.head.Agent) {
			w.Agent = im.head.Agent
		}
		if w.Sums, err = w.seal(&c); err == nil {
			err = sealed(c)
		}
		if err == nil {
			w.Checkpoints, w.Head = []Checkpoint{c}, c.ID
			err = w.save()
		}
	}
	if err != nil {
		return Checkpoint{}, "", errors.Join(fmt.Errorf("import: %w", err), im.undo(name))
	}
	return c, im.head.Project, nil
}

type importer struct {
	archiver

	ctx     context.Context // of the one call that it lives for
	store   *Store
	made    bool // the folder of the workspace
	tar     *tar.Reader
	head    archiveHead
	layers  []string
	open    *layers.Unpacker
	at      string // layer and part of open
	done    map[string]bool
	entries int
	bytes   int64
	most    int64 // bytes that a quota leaves
}

func (im *importer) undo(name string) error {
	_ = im.close() // it goes as it is
	var err error
	for _, id := range im.layers {
		err = errors.Join(err, layers.RemoveAll(im.store.fs, id))
	}
	if im.made && !im.store.Has(name) {
		err = errors.Join(err, os.RemoveAll(im.store.folder(name)))
	}
	return err
}

func (im *importer) all() (c Checkpoint, err error) {
	h, err := im.next()
	if err != nil || h.Name != headEntry || h.Typeflag != tar.TypeReg || h.Size > maxHead {
		return c, &BadArchive{"it does not begin as one"}
	}
	text, err := io.ReadAll(io.TeeReader(im.tar, im.sum))
	if err != nil || exactjson.Unmarshal(text, &im.head) != nil {
		return c, &BadArchive{"its first entry cannot be read"}
	}
	if im.head.Version != archiveVersion {
		return c, fmt.Errorf("it has version %d; this program knows %d", im.head.Version, archiveVersion)
	}
	if im.head.Layers < 0 || im.head.Layers > maxLayers {
		return c, &BadArchive{fmt.Sprintf("%d layers", im.head.Layers)}
	}
	for range im.head.Layers {
		id := newID()
		im.layers = append(im.layers, id)
		if err := im.store.in().Make(id); err != nil {
			return c, err
		}
	}
	if err := im.content(); err != nil {
		return c, err
	}
	c = Checkpoint{ID: newID(), Time: time.Now().UTC(), Message: clip(im.head.Message), Layers: slices.Clone(im.layers)}
	if len(c.Layers) > 0 {
		c.ID = c.Layers[0]
	}
	return c, nil
}

// agentName reports whether a word can be the name of an agent: fork starts it.
func agentName(word string) bool {
	return word != "" && len(word) < 64 && !strings.HasPrefix(word, "-") &&
		!strings.ContainsFunc(word, func(r rune) bool {
			return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z')
		})
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), 1000)], "?") }

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
		return nil, &BadArchive{fmt.Sprintf("more than %d entries", maxEntries)}
	}
	if im.bytes += h.Size; h.Size >= 0 && im.bytes > im.most && im.most < maxImport {
		return nil, &quota.Bounded{Left: im.most}
	}
	if h.Size < 0 || im.bytes > maxImport {
		return nil, &BadArchive{fmt.Sprintf("more than %d bytes", int64(maxImport))}
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
			return &BadArchive{"it ends too early"}
		}
		if _, bounded := errors.AsType[*quota.Bounded](err); bounded {
			return err
		}
		if bad := (*BadArchive)(nil); err != nil && !errors.As(err, &bad) && im.ctx.Err() == nil {
			return &BadArchive{err.Error()}
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
	if err != nil || i < 0 || i >= len(im.layers) || strconv.Itoa(i) != layer || !slices.Contains(parts.All(), parts.Part(of)) {
		return &BadArchive{fmt.Sprintf("an entry %.80q", h.Name)}
	}
	under := layer + "/" + of
	if im.at != under {
		if err := im.close(); err != nil {
			return err
		}
		if im.done[under] {
			return &BadArchive{"parts of layers are mixed"}
		}
		im.done[under], im.at = true, under
		if im.open, err = layers.NewUnpacker(im.store.in().At(im.layers[i], parts.Part(of)), im.store.uid, im.store.gid); err != nil {
			return err
		}
	}
	if h.Typeflag == tar.TypeLink {
		to, ok := strings.CutPrefix(h.Linkname, under+"/")
		if !ok {
			return &BadArchive{fmt.Sprintf("a link to %.80q", h.Linkname)}
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
	return &BadArchive{err.Error()}
}

// room refuses what would fill the disk.
func (im *importer) room(more int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(im.store.fs, &st); err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free-more < leaveFree {
		return fmt.Errorf("there are %d bytes left in %s: %w", free, filepath.Dir(im.store.fs), unix.ENOSPC)
	}
	if st.Files > 0 && st.Ffree < leaveFiles {
		return fmt.Errorf("there is room for %d more files in %s: %w", st.Ffree, filepath.Dir(im.store.fs), unix.ENOSPC)
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
		return &BadArchive{"its content is not what was summed up"}
	}
	if _, err := im.tar.Next(); !errors.Is(err, io.EOF) {
		return &BadArchive{"there is more after its end"}
	}
	return nil
}
