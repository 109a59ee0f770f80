package memory

import (
	"strings"
	"testing"
)

func TestFits(t *testing.T) {
	free, err := available("MemTotal:       24576 kB\nMemFree:  1 kB\nMemAvailable:   10240 kB\n")
	if err != nil || free != 10<<20 {
		t.Fatalf("%d, %v", free, err)
	}
	if _, err := available("MemTotal: 5 kB\n"); err == nil {
		t.Error("nothing was said, and taken for something")
	}
	for count, ok := range map[int64]bool{1: true, 5: true, 6: false, 1 << 62: false} {
		if err := fits(count, 2<<20, free); (err == nil) != ok {
			t.Errorf("%d forks of 2 MiB in 10: %v", count, err)
		}
	}
	if err := fits(6, 2<<20, free); err == nil || !strings.Contains(err.Error(), "6 forks need 12 MiB of memory, 2 each, and 10 MiB are free") {
		t.Errorf("%v", err)
	}
}
