//go:build linux

package seccomp

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed are the calls that a table's file names, those of Allowed and
// those of modeCalls. Files are read, for only one of them is compiled.
func listed(t *testing.T, arch string) (allowed, modes []string, newest string) {
	t.Helper()
	text, err := os.ReadFile("table_linux_" + arch + ".go")
	if err != nil {
		t.Fatal(err)
	}
	table, rest, ok := strings.Cut(string(text), "const Newest = ")
	if !ok {
		t.Fatalf("%s: no Newest", arch)
	}
	newest, rest, _ = strings.Cut(rest, "\n")
	line := regexp.MustCompile(`\{"([a-z0-9_]+)", (?:unix\.SYS_([A-Z0-9_]+)|([0-9]+))`)
	names := func(text string) []string {
		var out []string
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			if m[2] != "" && strings.ToLower(m[2]) != m[1] {
				t.Errorf("%s: %s has the number of %s", arch, m[1], m[2])
			}
			out = append(out, m[1])
		}
		slices.Sort(out)
		return out
	}
	return names(table), names(rest), newest
}

// TestTablesAgree: what one architecture's table allows, the other's does too,
// but for calls that only one of them has.
func TestTablesAgree(t *testing.T) {
	amd, amdModes, amdNewest := listed(t, "amd64")
	arm, armModes, armNewest := listed(t, "arm64")
	if len(amd) < 250 || amdNewest != armNewest {
		t.Errorf("%d calls up to %s, and %d up to %s", len(amd), amdNewest, len(arm), armNewest)
	}
	without := func(list, other []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
	}
	if diff := cmp.Diff([]string{}, without(arm, amd)); diff != "" {
		t.Errorf("allowed on arm64 alone:\n%s", diff)
	}
	// The calls of the first kernels, for which newer architectures have only the
	// form with more arguments, and those of this kind of processor.
	old := strings.Fields(`access alarm arch_prctl chown dup2 epoll_create epoll_wait eventfd fork futimesat get_thread_area
		getdents getpgrp inotify_init lchown link lstat mkdir pause pipe poll readlink rename rmdir select set_thread_area
		signalfd stat symlink time unlink uretprobe utime utimes vfork`)
	if diff := cmp.Diff(old, without(amd, arm)); diff != "" {
		t.Errorf("allowed on amd64 alone:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"chmod", "creat", "mknod", "open"}, without(amdModes, armModes)); diff != "" {
		t.Errorf("modes of amd64 alone:\n%s", diff)
	}
	if diff := cmp.Diff([]string{}, without(armModes, amdModes)); diff != "" {
		t.Errorf("modes of arm64 alone:\n%s", diff)
	}
}
