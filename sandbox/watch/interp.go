package watch

import (
	"bytes"
	"encoding/binary"
	"io"

	"cloister/internal/shebang"
)

// interpreterOf is the program that a script or an ELF file names to run it; "" for none.
// Whoever wrote the file is hostile: a few bytes are read, at places that are checked.
func interpreterOf(f io.ReaderAt) string {
	head := make([]byte, 256)
	n, _ := f.ReadAt(head, 0) // a short file is short
	head = head[:n]
	if bytes.HasPrefix(head, []byte("#!")) {
		line, _ := shebang.Read(f) // what cannot be read is not recorded, and does not start either
		return line.Interpreter
	}
	const sixtyFour, little = 2, 1
	if n < 64 || string(head[:4]) != "\x7fELF" || head[4] != sixtyFour || head[5] != little {
		return ""
	}
	at := binary.LittleEndian.Uint64(head[32:])
	size, count := int(binary.LittleEndian.Uint16(head[54:])), int(binary.LittleEndian.Uint16(head[56:]))
	if size < 56 || size > 256 || count > 256 || at > 1<<40 {
		return ""
	}
	table := make([]byte, size*count)
	if _, err := f.ReadAt(table, int64(at)); err != nil {
		return ""
	}
	for i := range count {
		entry := table[i*size:]
		const interp = 3 // PT_INTERP
		if binary.LittleEndian.Uint32(entry) != interp {
			continue
		}
		offset, length := binary.LittleEndian.Uint64(entry[8:]), binary.LittleEndian.Uint64(entry[32:])
		if offset > 1<<40 || length == 0 || length > 4096 {
			return ""
		}
		name := make([]byte, length)
		if _, err := f.ReadAt(name, int64(offset)); err != nil {
			return ""
		}
		text, _, _ := bytes.Cut(name, []byte{0})
		return string(text)
	}
	return ""
}
