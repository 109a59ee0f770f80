package image_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox/image"
)

// A file with holes takes a few bytes of its layer, and may say any size.
func TestHolesAreBounded(t *testing.T) {
	var layer bytes.Buffer
	// archive/tar writes no sparse files: the header is written by hand.
	record := func(k, v string) string {
		n := len(k) + len(v) + 3
		for n != len(fmt.Sprintf("%d %s=%s\n", n, k, v)) {
			n++
		}
		return fmt.Sprintf("%d %s=%s\n", n, k, v)
	}
	pax := record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") + record("GNU.sparse.name", "big") + record("GNU.sparse.realsize", fmt.Sprint(int64(1)<<40))
	block := func(name string, kind byte, body string) {
		var head [512]byte
		copy(head[:], name)
		copy(head[100:], "0000644\x00")
		copy(head[108:], "0000000\x000000000\x00")
		copy(head[124:], fmt.Sprintf("%011o\x00", len(body)))
		copy(head[136:], "00000000000\x00")
		head[156] = kind
		copy(head[257:], "ustar\x0000")
		copy(head[148:], "        ")
		sum := 0
		for _, b := range head {
			sum += int(b)
		}
		copy(head[148:], fmt.Sprintf("%06o\x00 ", sum))
		layer.Write(head[:])
		layer.WriteString(body)
		layer.Write(make([]byte, (512-len(body)%512)%512))
	}
	block("PaxHeaders/big", tar.TypeXHeader, pax)
	block("big", tar.TypeReg, "0\n"+string(make([]byte, 510)))
	layer.Write(make([]byte, 1024))
	err := image.Unpack(filepath.Join(t.TempDir(), "root"), &layer)
	if err == nil || !strings.Contains(err.Error(), "larger than 64 GiB") {
		t.Errorf("a file of a terabyte: %v", err)
	}
}
