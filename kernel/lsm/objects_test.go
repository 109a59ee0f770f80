package lsm_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/needs"
)

// made are the files that the kept objects were made from, and themselves.
var made = []string{"bpf/kernel.h", "bpf/guards.h", "bpf/lsm.bpf.c", "objects_bpfel.go", "objects_bpfel.o"}

// The objects that are kept are those of the source beside them: go generate, then
// CLOISTER_WRITE_SUMS=1 go test ./kernel/lsm -run TestObjectsMatch.
func TestObjectsMatch(t *testing.T) {
	var sums strings.Builder
	for _, name := range made {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		sums.WriteString(hex.EncodeToString(sum[:]) + "  " + name + "\n")
	}
	if os.Getenv("CLOISTER_WRITE_SUMS") != "" {
		if err := os.WriteFile("testdata/sums", []byte(sums.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile("testdata/sums")
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != sums.String() {
		t.Errorf("the source and the objects are not those that belong together: go generate ./kernel/lsm\n%s", sums.String())
	}
}

// Where the compiler is, the source is compiled again, and comes to the same bytes.
func TestObjectsCompile(t *testing.T) {
	if !needs.Claimed("clang") {
		t.Skip("CLOISTER_TEST_NEEDS does not name clang: script/test lsm")
	}
	needs.Program(t, "clang", "clang-14")
	needs.Program(t, "clang", "llvm-strip-14")
	if _, err := os.Stat("/usr/include/bpf/bpf_helpers.h"); err != nil {
		needs.Missing(t, "clang", err)
	}
	out := t.TempDir()
	c := exec.CommandContext(t.Context(), "./generate", out)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, name := range []string{"objects_bpfel.go", "objects_bpfel.o"} {
		fresh, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fresh, kept) {
			t.Errorf("%s is not what the source comes to", name)
		}
	}
}
