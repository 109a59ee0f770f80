package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Holds reads back whether a process that someone else bounded is held to the
// bounds. What cannot be read holds no one.
func Holds(pid int, b Bounds) error {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return fmt.Errorf("find control group: %w", err)
	}
	folders := map[string]string{} // by controller; version 2 is ""
	for controllers, path := range memberships(text) {
		for controller := range strings.SplitSeq(controllers, ",") {
			folders[controller] = filepath.Join(Root, controllers, path)
		}
	}
	for _, c := range []struct {
		controller, first, second string
		most                      int64
	}{
		{"pids", "pids.max", "pids.max", b.PIDs},
		{"memory", "memory.limit_in_bytes", "memory.max", b.Memory},
		{"cpu", "cpu.cfs_quota_us", "cpu.max", b.quota()},
	} {
		if c.most <= 0 {
			continue
		}
		file := filepath.Join(folders[c.controller], c.first)
		if Unified() {
			file = filepath.Join(folders[""], c.second)
		}
		if err := holds(file, c.most); err != nil {
			return fmt.Errorf("%s: %w", c.controller, err)
		}
	}
	return nil
}

// holds reports whether a bound of the kernel's is no higher than it should be. Of
// processor time the second word is the period.
func holds(file string, most int64) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the kernel offers no such controller here")
	}
	if err != nil {
		return err
	}
	words := strings.Fields(string(text))
	if len(words) == 2 {
		length, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return err
		}
		most = most * length / period
	}
	if len(words) == 0 || slices.Contains(words[:1], "max") {
		return errors.New("nothing is bounded")
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return err
	}
	if n < 0 || n > most {
		return fmt.Errorf("bounded by %d, not %d", n, most)
	}
	return nil
}
