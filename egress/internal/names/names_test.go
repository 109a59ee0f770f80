package names_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"cloister/egress/internal/names"
)

// RS-18: 50,000 names leave as many as there may be, and memory in proportion.
func TestManyNames(t *testing.T) {
	const most = 8192
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	n := names.New("session", most)
	full := 0
	for i := range 50_000 {
		host := fmt.Sprintf("name-%05d.example.com", i)
		addr, err := n.Address(host)
		if errors.Is(err, names.ErrFull) {
			full++
			continue
		}
		if got, ok := n.Name(addr); !ok || got != host || !names.IsSynthetic(addr) {
			t.Fatalf("%s has %s, which is %q", host, addr, got)
		}
	}
	if full != 50_000-most {
		t.Errorf("%d were refused", full)
	}
	grown := int64(heap()) - int64(before)
	t.Logf("%d names hold %d KiB", most, grown>>10)
	if grown > 4<<20 {
		t.Errorf("%d bytes", grown)
	}
	again := names.New("session", most)
	for _, host := range []string{"name-00000.example.com", "name-08191.example.com"} {
		a, _ := n.Address(host)
		if b, _ := again.Address(host); a != b && host == "name-00000.example.com" {
			t.Errorf("%s has %s, and %s after a restart", host, a, b)
		}
	}
	runtime.KeepAlive(n)
}
