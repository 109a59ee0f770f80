package taint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// text is the content of the register but for a last line that was never finished:
// whoever wrote that died before their session began.
func (r *Register) text(f *os.File) ([]byte, error) {
	if err := r.sound(f); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(text) > 0 && text[len(text)-1] != '\n' {
		// Someone writes just now, or died in it: with the lock it is one or the other.
		if err = flock(f, unix.LOCK_SH); err == nil {
			if _, err = f.Seek(0, io.SeekStart); err == nil {
				text, err = io.ReadAll(io.LimitReader(f, most+1))
			}
		}
	}
	if err != nil {
		return nil, &Bad{File: r.file, Why: err.Error()}
	}
	if len(text) > most {
		return nil, &Bad{File: r.file, Why: fmt.Sprintf("more than %d bytes", most)}
	}
	return text[:bytes.LastIndexByte(text, '\n')+1], nil
}

// sound refuses a register that someone else could have written.
func (r *Register) sound(f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return &Bad{File: r.file, Why: err.Error()}
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.Mode().IsRegular() {
		return &Bad{File: r.file, Why: "not a regular file"}
	}
	if int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return &Bad{File: r.file, Why: "another user may write it"}
	}
	return nil
}

func (r *Register) parse(text []byte) error {
	rest, ok := bytes.CutPrefix(text, []byte(header))
	if !ok {
		if len(text) == 0 {
			return nil
		}
		return &Bad{File: r.file, Line: 1, Why: "not the first line of a register of this version"}
	}
	line := 1
	for entry := range strings.Lines(string(rest)) {
		line++
		p, err := parse(strings.TrimSuffix(entry, "\n"))
		if err != nil {
			return &Bad{File: r.file, Line: line, Why: err.Error()}
		}
		r.add(p)
	}
	return nil
}

var errLine = errors.New("not a line of the register")

func parse(line string) (Place, error) {
	f := strings.Split(line, "\t")
	if len(f) != 7 {
		return Place{}, errLine
	}
	var p Place
	var errs [6]error
	p.Kind = f[0]
	p.ID.Dev, errs[0] = strconv.ParseUint(f[1], 10, 64)
	p.ID.Ino, errs[1] = strconv.ParseUint(f[2], 10, 64)
	p.ID.Born, errs[2] = strconv.ParseInt(f[3], 10, 64)
	p.Path, errs[3] = strconv.Unquote(f[4])
	p.Pin.Main, errs[4] = strconv.Unquote(f[5])
	p.Pin.Git, errs[5] = strconv.Unquote(f[6])
	switch p.Kind {
	case Project, Git, Private, Exposed, forgotten:
	default:
		return Place{}, errLine
	}
	if errors.Join(errs[:]...) != nil || !filepath.IsAbs(p.Path) || filepath.Clean(p.Path) != p.Path {
		return Place{}, errLine
	}
	return p, nil
}

func (p Place) line() string {
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%s\t%s\t%s\n", p.Kind, p.ID.Dev, p.ID.Ino, p.ID.Born,
		strconv.Quote(p.Path), strconv.Quote(p.Pin.Main), strconv.Quote(p.Pin.Git))
}
