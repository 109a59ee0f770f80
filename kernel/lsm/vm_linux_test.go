package lsm_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloister/internal/needs"
)

// TestGuest boots the kernels that CLOISTER_LSM_KERNELS names, folders with an unpacked
// package of Debian's each, and runs this program's tests in them.
func TestGuest(t *testing.T) {
	list := os.Getenv("CLOISTER_LSM_KERNELS")
	if list == "" {
		t.Skip("CLOISTER_LSM_KERNELS names no kernels: script/test lsm")
	}
	for dir := range strings.SplitSeq(list, ":") {
		g := needs.Guest{Kernel: dir, Modules: []string{"overlay.ko"}, Run: guestTests()}
		release := g.Release(t)
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			console := g.Boot(t)
			rows := strings.Contains(console, "@@ row\t") || os.Getenv("CLOISTER_LSM_RUN") != "" // a part has none
			if !strings.Contains(console, "@@ ended 0") || !rows {
				t.Errorf("the guest's tests failed:\n%s", console)
			}
			for line := range strings.Lines(console) {
				if strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "    --- ") {
					t.Log(strings.TrimRight(line, "\n"))
				}
			}
			t.Logf("%d rows in %v", strings.Count(console, "@@ row\t"), time.Since(began).Round(time.Second))
			if folder := os.Getenv("CLOISTER_LSM_REPORT"); folder != "" && !t.Failed() && os.Getenv("CLOISTER_LSM_RUN") == "" {
				if err := writeReport(folder, "guest", release, console); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// writeReport keeps what the guest said of its attempts, in a file for each kernel.
func writeReport(folder, kind, release, console string) error {
	text := "# " + release + "\n"
	for _, row := range regexp.MustCompile(`(?m)^@@ ((?:row|flood|loaded|cost|weak)\t.*)$`).FindAllStringSubmatch(console, -1) {
		text += row[1] + "\n"
	}
	version := regexp.MustCompile(`^\d+\.\d+`).FindString(release)
	return os.WriteFile(filepath.Join(folder, kind+"-"+version+".tsv"), []byte(text), 0o644)
}

func guestTests() string {
	if only := os.Getenv("CLOISTER_LSM_RUN"); only != "" {
		return only
	}
	return "^TestKernel"
}
