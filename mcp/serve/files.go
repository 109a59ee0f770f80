package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	readBytes, maxReadBytes = 256 << 10, 1 << 20
	maxPath                 = 4096
	maxEntries              = 2000
	// fileTime is how long one access to a file may take: a path may be a pipe on which
	// no other process writes.
	fileTime = 30 * time.Second
)

// inside is a path as it is called inside; a relative one begins at the project. It says
// nothing of where links lead: the kernel follows them inside, where nothing of the host is
// but what the cloister shows.
func (s *server) inside(p string) (string, error) {
	switch {
	case strings.Contains(p, "\x00"):
		return "", refuse("a path has no NUL")
	case len(p) > maxPath:
		return "", refuse("a path has %d bytes at most", maxPath)
	case !strings.HasPrefix(p, "/"):
		p = s.o.Cloister.Dir() + "/" + p
	}
	return path.Clean(p), nil
}

// script runs a few lines of sh inside, whose arguments are data.
func (s *server) script(ctx context.Context, lines string, stdin []byte, most int, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fileTime, errTimeOver)
	defer cancel()
	out, said := &ends{most: 2 * most}, &ends{most: 4 << 10}
	argv := append([]string{"/bin/sh", "-c", lines, "sh"}, args...)
	c := Command{Argv: argv, Dir: "/", Env: []string{"LC_ALL=C"}, Stdout: out, Stderr: said}
	if stdin != nil {
		c.Stdin = bytes.NewReader(stdin)
	}
	status, err := s.o.Cloister.Run(ctx, c)
	switch {
	case errors.Is(err, errTimeOver):
		return nil, refuse("%s: nothing came of it within %v", args[0], fileTime)
	case err != nil:
		return nil, err
	case status != 0:
		return nil, refuse("%s", strings.TrimSpace(said.text()))
	case out.leftOut() > 0 || len(out.first) > most:
		return nil, refuse("%s: more than %d bytes", args[0], most)
	}
	return out.first, nil
}

type readIn struct {
	Path   string `json:"path" doc:"the file, from the project unless it begins with /"`
	Offset int64  `json:"offset,omitempty" doc:"bytes to skip"`
	Limit  int    `json:"limit,omitempty" doc:"bytes to read; 262144 unless said, 1048576 at most"`
}

type readOut struct {
	Path     string `json:"path"`
	Encoding string `json:"encoding" doc:"utf-8, or base64 for what is no text"`
	Content  string `json:"content"`
	Bytes    int    `json:"bytes"`
	More     bool   `json:"more,omitempty" doc:"the file goes on"`
}

func (s *server) readFile(ctx context.Context, r request, in readIn) (*toolResult, error) {
	at, err := s.inside(in.Path)
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	if limit == 0 {
		limit = readBytes
	}
	if limit < 1 || limit > maxReadBytes || in.Offset < 0 {
		return nil, refuse("limit is 1 to %d, offset at least 0", maxReadBytes)
	}
	release, err := s.judged(ctx, r, "")
	if err != nil {
		return nil, err
	}
	defer release()
	const lines = `test -d "$1" && { echo "$1: Is a directory" >&2; exit 1; }
exec 3<"$1" || exit 1
tail -c "+$2" <&3 | head -c "$3"`
	got, err := s.script(ctx, lines, nil, limit+1, at, strconv.FormatInt(in.Offset+1, 10), strconv.Itoa(limit+1))
	if err != nil {
		return nil, err
	}
	out := readOut{Path: at, Encoding: "utf-8", More: len(got) > limit}
	got = got[:min(len(got), limit)]
	out.Bytes = len(got)
	if out.Content = string(got); !utf8.Valid(got) {
		out.Encoding, out.Content = "base64", base64.StdEncoding.EncodeToString(got)
	}
	text := out.Content
	if out.More {
		text += fmt.Sprintf("\n[the file goes on: offset %d]", in.Offset+int64(limit))
	}
	return answer(text, out, false), nil
}

type writeIn struct {
	Path     string `json:"path" doc:"the file, from the project unless it begins with /; its folders are made"`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty" doc:"utf-8 unless said, or base64"`
	Append   bool   `json:"append,omitempty" doc:"add to the file instead of replacing what it holds"`
}

type writeOut struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

func (s *server) writeFile(ctx context.Context, r request, in writeIn) (*toolResult, error) {
	at, err := s.inside(in.Path)
	if err != nil {
		return nil, err
	}
	content := []byte(in.Content)
	switch in.Encoding {
	case "", "utf-8":
	case "base64":
		if content, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return nil, refuse("content is no base64: %v", err)
		}
	default:
		return nil, refuse("encoding is utf-8 or base64")
	}
	release, err := s.judged(ctx, r, "")
	if err != nil {
		return nil, err
	}
	defer release()
	lines := `mkdir -p -- "$2" && cat >"$1"`
	if in.Append {
		lines = `mkdir -p -- "$2" && cat >>"$1"`
	}
	if _, err := s.script(ctx, lines, append([]byte{}, content...), 0, at, path.Dir(at)); err != nil {
		return nil, err
	}
	return answer(fmt.Sprintf("wrote %d bytes to %s", len(content), at), writeOut{at, len(content)}, false), nil
}

type listIn struct {
	Path string `json:"path,omitempty" doc:"the folder, from the project unless it begins with /"`
}

// An entry of a folder, as it is itself: a link is not followed.
type entry struct {
	Name     string `json:"name"`
	Type     string `json:"type" doc:"file, directory, link or other"`
	Size     int64  `json:"size"`
	Mode     string `json:"mode"`
	Modified string `json:"modified,omitempty"`
}

type listOut struct {
	Path    string  `json:"path"`
	Entries []entry `json:"entries"`
	More    bool    `json:"more,omitempty" doc:"the folder has more entries than are listed"`
}

func (s *server) listFiles(ctx context.Context, r request, in listIn) (*toolResult, error) {
	at, err := s.inside(in.Path)
	if err != nil {
		return nil, err
	}
	release, err := s.judged(ctx, r, "")
	if err != nil {
		return nil, err
	}
	defer release()
	// No name has a slash, so that // ends a record. A pattern without a match is a name
	// that does not exist, of which stat complains.
	const lines = `cd -- "$1" || exit 1
stat -c '%f %s %Y %n//' -- ./* ./.[!.]* ./..?* 2>/dev/null
test $? -lt 126 || { echo "$1: too many entries for stat, or no stat here" >&2; exit 1; }`
	got, err := s.script(ctx, lines, nil, 1<<20, at)
	if err != nil {
		return nil, err
	}
	out := listOut{Path: at, Entries: []entry{}}
	var text strings.Builder
	for record := range strings.SplitSeq(string(got), "//\n") {
		e, ok := readEntry(record)
		switch {
		case !ok:
			continue
		case len(out.Entries) == maxEntries:
			out.More = true
		default:
			out.Entries = append(out.Entries, e)
			fmt.Fprintf(&text, "%-9s %10d  %q\n", e.Type, e.Size, e.Name)
		}
	}
	if out.More {
		fmt.Fprintf(&text, "[and more: these are the first %d]\n", maxEntries)
	}
	return answer(text.String(), out, false), nil
}

// readEntry reads what stat wrote of one name. It comes from inside, so whatever it is not,
// it is skipped.
func readEntry(record string) (entry, bool) {
	parts := strings.SplitN(record, " ", 4)
	if len(parts) != 4 || !strings.HasPrefix(parts[3], "./") {
		return entry{}, false
	}
	mode, err := strconv.ParseUint(parts[0], 16, 32)
	size, err2 := strconv.ParseInt(parts[1], 10, 64)
	modified, err3 := strconv.ParseInt(parts[2], 10, 64)
	if errors.Join(err, err2, err3) != nil {
		return entry{}, false
	}
	kind := map[uint64]string{0x8000: "file", 0x4000: "directory", 0xa000: "link"}[mode&0xf000]
	if kind == "" {
		kind = "other"
	}
	return entry{
		Name: clean([]byte(parts[3][2:])), Type: kind, Size: size, Mode: fmt.Sprintf("%04o", mode&0o7777),
		Modified: time.Unix(modified, 0).UTC().Format(time.RFC3339),
	}, true
}
