package vscreen

import "slices"

// maxHistory bounds the lines that left at the top: in lines and in bytes.
const (
	maxHistory      = 2000
	maxHistoryBytes = 1 << 20
)

// history are lines as they are replayed, oldest first, behind those that were
// dropped already.
type history struct {
	lines   []string
	dropped int
	bytes   int
}

func (s *Screen) keep(lines [][]cell) {
	h := &s.history
	for _, line := range lines {
		text := string(appendLine(nil, line))
		h.lines = append(h.lines, text)
		h.bytes += len(text)
	}
	for len(h.lines)-h.dropped > maxHistory || h.bytes > maxHistoryBytes {
		h.bytes -= len(h.lines[h.dropped])
		h.lines[h.dropped] = ""
		h.dropped++
	}
	if h.dropped > maxHistory {
		h.lines = slices.Clone(h.lines[h.dropped:])
		h.dropped = 0
	}
}
