package git

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/termsafe"
)

// maxPacket bounds one line of the protocol (gitprotocol-common(5)).
const maxPacket = 65520

// packet writes one line.
func packet(w io.Writer, payload string) error {
	_, err := fmt.Fprintf(w, "%04x%s", len(payload)+4, payload)
	return err
}

func flush(w io.Writer) error {
	_, err := io.WriteString(w, "0000")
	return err
}

// band writes bytes on one channel of the side band.
func band(w io.Writer, n byte, p []byte) error {
	for len(p) > 0 {
		k := min(len(p), maxPacket-5)
		if err := packet(w, string(n)+string(p[:k])); err != nil {
			return err
		}
		p = p[k:]
	}
	return nil
}

var errFlush = errors.New("flush")

// readPacket reads one line; errFlush for the end of a list.
func readPacket(r *bufio.Reader) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	switch {
	case err != nil || n > maxPacket || n > 0 && n < 4:
		return "", fmt.Errorf("%q is no length of a packet", head[:])
	case n == 0:
		return "", errFlush
	}
	line := make([]byte, n-4)
	if _, err := io.ReadFull(r, line); err != nil {
		return "", err
	}
	return string(line), nil
}

// advertise says what stands at the remote, and what this end can do.
func advertise(w io.Writer, refs map[string]string) error {
	const can = "report-status delete-refs side-band-64k ofs-delta quiet atomic object-format=sha1 agent=cloister"
	caps := "\x00" + can
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if err := packet(w, refs[ref]+" "+ref+caps+"\n"); err != nil {
			return err
		}
		caps = ""
	}
	if caps != "" {
		if err := packet(w, zero+" capabilities^{}"+caps+"\n"); err != nil {
			return err
		}
	}
	return flush(w)
}

// Update is one ref that a push changes.
type Update struct {
	Ref      string
	Old, New string // names of objects; zeros for none

	// What it would do, filled in when the objects are there.
	Force       bool     // commits or a tag of the remote would be lost
	Lost        int      // how many commits
	Own         bool     // and all that would be lost came by here before
	Fresh       int      // how many come
	Commits     []Commit // newest first, at most MaxCommits
	Files       []File   // at most MaxFiles
	Changed     int      // how many files
	Plus, Minus int      // lines
	// There are the paths of all changed files that are there afterwards, of an update of a project alone.
	There []string
	// Stayed says that the remote reported that it did not take this. Without a report it may have it.
	Stayed bool
}

// commands are what a client wants of receive-pack.
type commands struct {
	updates                  []Update
	sideband, atomic, status bool
}

// readCommands reads the list of wanted updates, up to its end.
func readCommands(r *bufio.Reader) (commands, error) {
	var c commands
	seen := map[string]bool{}
	for first := true; ; first = false {
		line, err := readPacket(r)
		if errors.Is(err, errFlush) || first && errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return c, fmt.Errorf("read push: %w", err)
		}
		line, caps, has := strings.Cut(line, "\x00")
		if has && first {
			for word := range strings.FieldsSeq(caps) {
				c.sideband = c.sideband || word == "side-band-64k"
				c.atomic = c.atomic || word == "atomic"
				c.status = c.status || word == "report-status"
			}
		}
		u, err := readUpdate(strings.TrimSuffix(line, "\n"))
		switch {
		case err != nil:
			return c, err
		case seen[u.Ref]:
			return c, fmt.Errorf("read push: %s stands there twice", termsafe.Quote(u.Ref))
		case len(c.updates) == MaxUpdates:
			return c, fmt.Errorf("read push: more than %d branches and tags at once", MaxUpdates)
		}
		seen[u.Ref] = true
		c.updates = append(c.updates, u)
	}
}

func readUpdate(line string) (Update, error) {
	if strings.HasPrefix(line, "shallow ") {
		return Update{}, errors.New("a shallow repository cannot be pushed from: git fetch --unshallow")
	}
	f := strings.SplitN(line, " ", 3)
	if len(f) != 3 || !isName(f[0]) || !isName(f[1]) || f[0] == f[1] {
		return Update{}, fmt.Errorf("read push: %s is no update", termsafe.Quote(termsafe.Clip(line, 200)))
	}
	if !plainRef(f[2]) {
		return Update{}, fmt.Errorf("read push: %s is no branch and no tag", termsafe.Quote(termsafe.Clip(f[2], 200)))
	}
	return Update{Old: f[0], New: f[1], Ref: f[2]}, nil
}

func isName(s string) bool {
	return len(s) == len(zero) && strings.Trim(s, "0123456789abcdef") == ""
}

// send tells the client what became of each update.
func (r report) send(w io.Writer, c commands) error {
	if !c.status {
		return nil
	}
	var b strings.Builder
	if err := packet(&b, "unpack "+r.unpack+"\n"); err != nil {
		return err
	}
	for _, u := range c.updates {
		line := "ok " + u.Ref
		if why, is := r.refused[u.Ref]; is {
			line = "ng " + u.Ref + " " + termsafe.Clip(termsafe.Text(why), 1000)
		}
		if err := packet(&b, line+"\n"); err != nil {
			return err
		}
	}
	if err := flush(&b); err != nil {
		return err
	}
	if !c.sideband {
		_, err := io.WriteString(w, b.String())
		return err
	}
	if err := band(w, 1, []byte(b.String())); err != nil {
		return err
	}
	return flush(w)
}

// move takes the packs of one objects folder into another, the index last: a pack
// counts from then on.
func move(from, to string) error {
	for _, kind := range []string{"*.pack", "*.rev", "*.idx"} {
		names, err := filepath.Glob(filepath.Join(from, "pack", kind))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.MkdirAll(filepath.Join(to, "pack"), 0o700); err != nil {
				return err
			}
			if err := os.Rename(name, filepath.Join(to, "pack", filepath.Base(name))); err != nil {
				return err
			}
		}
	}
	return nil
}
