package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What an archive says beside tar: of a folder that it is opaque, and of a sparse file
// its size with the places of the data that follow.
const (
	paxOpaque = "CLOISTER.opaque"
	paxSparse = "CLOISTER.sparse"
)

// maxSpans bounds the pieces of a sparse file.
const maxSpans = 10_000

// Packer writes layers into an archive. Pipes, sockets and set-id bits are left out.
type Packer struct {
	Tar *tar.Writer
	// Seen is given each entry and gives what its content is written to as well.
	Seen func(*tar.Header) io.Writer

	linked map[inodeOf]string
}

// Pack writes what is in a layer's folder, below a name in the archive.
func (p *Packer) Pack(dir, under string) error {
	top, err := OpenLayer(dir)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	p.linked = map[inodeOf]string{}
	if err := p.folder(top, under, 0); err != nil {
		return fmt.Errorf("pack layer: %w", err)
	}
	return nil
}

func (p *Packer) folder(f *Folder, under string, depth int) error {
	if depth > maxDepth {
		return &TooMany{f.name, fmt.Sprintf("more than %d folders in each other", maxDepth)}
	}
	names, err := f.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := p.entry(f, name, path.Join(under, name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (p *Packer) entry(f *Folder, name, full string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return f.error("stat", name, err)
	}
	node, removed, err := f.stat(name)
	if err != nil {
		return err
	}
	h := &tar.Header{
		Name: full, Mode: int64(node.Mode & 0o777), ModTime: time.Unix(0, node.Stamp.Mtime),
		Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	at := inodeOf{uint64(st.Dev), st.Ino}
	switch {
	case removed:
		h.Typeflag = tar.TypeChar // 0:0, as overlayfs has it
		return p.head(h)
	case node.Kind == Special:
		return nil
	case node.Kind == Dir:
		return p.subfolder(f, name, h, depth)
	case p.linked[at] != "":
		h.Typeflag, h.Linkname = tar.TypeLink, p.linked[at]
		return p.head(h)
	case node.Kind == Link:
		h.Typeflag, h.Linkname = tar.TypeSymlink, node.Target
		return p.head(h)
	}
	if st.Nlink > 1 {
		p.linked[at] = full
	}
	return p.file(f, name, h)
}

func (p *Packer) head(h *tar.Header) error {
	p.Seen(h)
	return p.Tar.WriteHeader(h)
}

func (p *Packer) subfolder(f *Folder, name string, h *tar.Header, depth int) error {
	sub, err := f.Folder(name)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	h.Typeflag = tar.TypeDir
	opaque, err := sub.opaque()
	if err != nil {
		return err
	}
	if opaque {
		h.PAXRecords[paxOpaque] = "y"
	}
	full := h.Name
	if err := p.head(h); err != nil {
		return err
	}
	return p.folder(sub, full, depth+1)
}

// span is a piece of a file that has data.
type span struct{ at, size int64 }

func (p *Packer) file(f *Folder, name string, h *tar.Header) error {
	in, err := f.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	size, spans, err := spansOf(in)
	if err != nil {
		return err
	}
	h.Typeflag = tar.TypeReg
	for _, s := range spans {
		h.Size += s.size
	}
	if h.Size != size {
		h.PAXRecords[paxSparse] = spell(size, spans)
	}
	out := io.MultiWriter(p.Tar, p.Seen(h))
	if err := p.Tar.WriteHeader(h); err != nil {
		return err
	}
	for _, s := range spans {
		if _, err := io.CopyN(out, io.NewSectionReader(in, s.at, s.size), s.size); err != nil {
			return f.error("read", name, err)
		}
	}
	return nil
}

// spansOf finds where a file has data. One of too many pieces counts as one piece.
func spansOf(in *os.File) (size int64, out []span, err error) {
	fi, err := in.Stat()
	if err != nil {
		return 0, nil, err
	}
	for at := int64(0); at < fi.Size(); {
		data, err := in.Seek(at, seekData)
		if errors.Is(err, unix.ENXIO) {
			break // a hole to the end
		}
		if err != nil {
			return 0, nil, err
		}
		end, err := in.Seek(data, seekHole)
		if err != nil {
			return 0, nil, err
		}
		end = min(end, fi.Size())
		out, at = append(out, span{data, end - data}), end
	}
	if len(out) > maxSpans {
		out = []span{{0, fi.Size()}}
	}
	return fi.Size(), out, nil
}

func spell(size int64, spans []span) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", size)
	for _, s := range spans {
		fmt.Fprintf(&b, " %d+%d", s.at, s.size)
	}
	return b.String()
}

// parseSpans reads what spell writes: pieces in order, none over the end, and together as
// long as the data that follows.
func parseSpans(text string, follows int64) (size int64, out []span, err error) {
	bad := fmt.Errorf("a sparse file is described wrongly: %.80q", text)
	words := strings.Split(text, " ")
	if size, err = strconv.ParseInt(words[0], 10, 64); err != nil || size < 0 || len(words) > maxSpans+1 {
		return 0, nil, bad
	}
	end, sum := int64(0), int64(0)
	for _, w := range words[1:] {
		from, length, _ := strings.Cut(w, "+")
		at, err1 := strconv.ParseInt(from, 10, 64)
		n, err2 := strconv.ParseInt(length, 10, 64)
		if err1 != nil || err2 != nil || at < end || n < 0 || at > size || n > size-at {
			return 0, nil, bad
		}
		out, end, sum = append(out, span{at, n}), at+n, sum+n
	}
	if sum != follows {
		return 0, nil, bad
	}
	return size, out, nil
}
