// Package processors measures how much of the machine's processors is left.
//
// It promises the share that was idle between two looks, and none where the system does not
// say. It knows nothing of who used the rest.
//
// Most readers want [Meter.Idle].
package processors

import (
	"os"
	"strconv"
	"strings"
)

// A Meter remembers one look.
type Meter struct {
	File      string // what the kernel counted since it began (proc_stat(5)); empty: that of this machine
	idle, all uint64
}

// Idle is the share of all processors' time since the last call that was idle, from 0 to 1. The
// first call gives 0.
func (m *Meter) Idle() float64 {
	idle, all := m.look()
	wasIdle, was := m.idle, m.all
	m.idle, m.all = idle, all
	if was == 0 || all <= was || idle < wasIdle {
		return 0
	}
	return float64(idle-wasIdle) / float64(all-was)
}

// look sums up the first line: cpu user nice system idle iowait irq softirq steal. The guests'
// times behind them are in user's already.
func (m *Meter) look() (idle, all uint64) {
	file := m.File
	if file == "" {
		file = "/proc/stat"
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, 0
		}
		all += n
		if i == 3 || i == 4 {
			idle += n
		}
	}
	return idle, all
}
