// Package shebang reads the first line of a script as the kernel does.
//
// The promise: what it gives is what execve(2) would start, by load_script of
// fs/binfmt_script.c: 256 bytes are looked at, and all behind the interpreter is one argument.
//
// It opens no file, and starts nothing.
//
// Most readers want [Read].
package shebang

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// size is how much of a file the kernel looks at: BINPRM_BUF_SIZE.
const size = 256

// A Line is the first line of a script.
type Line struct {
	Interpreter string // "" where the file is no script, or one that the kernel refuses
	Argument    string
}

// Read reads the first line of a file.
func Read(f io.ReaderAt) (Line, error) {
	head := make([]byte, size)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Line{}, fmt.Errorf("read the first line: %w", err)
	}
	rest, script := bytes.CutPrefix(head[:n], []byte("#!"))
	if !script {
		return Line{}, nil
	}
	line, _, whole := bytes.Cut(rest, []byte("\n"))
	if !whole && n == size {
		if !bytes.ContainsAny(bytes.TrimLeft(line, blanks), blanks+"\x00") {
			return Line{}, nil // the interpreter's name goes on behind what is looked at
		}
		line = line[:len(line)-1] // the last byte is the end of the text
	}
	text := strings.TrimLeft(string(line), blanks)
	text, _, _ = strings.Cut(text, "\x00")
	text = strings.TrimRight(text, blanks)
	if i := strings.IndexAny(text, blanks); i >= 0 {
		return Line{text[:i], strings.TrimLeft(text[i:], blanks)}, nil
	}
	return Line{Interpreter: text}, nil
}

// blanks are what the kernel takes for one: no carriage return, which is part of a name.
const blanks = " \t"
