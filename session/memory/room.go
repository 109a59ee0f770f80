package memory

import (
	"fmt"
	"os"
	"strings"
)

// fitting refuses forks of a memory that the machine has no room for: each has a copy of all
// of it, and shares nothing with the others but the page cache of the image.
func fitting(s Sheet, count int, free func() (int64, error)) error {
	n, err := free()
	if err != nil {
		return err
	}
	if s.Encrypted {
		count++ // what all of them are filled from is in memory too
	}
	return fits(int64(count), s.Bytes(), n)
}

func machineFree() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("fork: look at the machine's memory: %w", err)
	}
	return available(string(text))
}

func fits(count, each, free int64) error {
	const mib = 1 << 20
	if each > 0 && count > free/each {
		return fmt.Errorf("fork: %d forks need %d MiB of memory, %d each, and %d MiB are free: fork fewer", count,
			count*each/mib, each/mib, free/mib)
	}
	return nil
}

// available is what the kernel says that programs can have without swapping, in bytes.
func available(meminfo string) (int64, error) {
	for line := range strings.Lines(meminfo) {
		var kib int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("fork: the kernel does not say how much memory is free")
}
