//go:build cloister_cluster

package kubernetes_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cloister/internal/exactjson"
	"cloister/sandbox/sandboxtest/system"
)

// TestClusterCorpus makes the attempts of the corpus (cloister-escape) that share a cloister in a pod of cloister
// run, each beside its control on this host, and notes what was held in the file that CLOISTER_COLUMNS names.
func TestClusterCorpus(t *testing.T) {
	c := begin(t)
	program := os.Getenv("CLOISTER_ESCAPE")
	root := system.Make(t)
	if err := copyProgram(program, filepath.Join(root, program)); err != nil {
		t.Fatal(err)
	}
	c.level.Image = c.imageOf("cloister.test/corpus:1", root)
	dir := t.TempDir()
	level, err := exactjson.Marshal(c.level)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "level.json"), level, 0o600); err != nil {
		t.Fatal(err)
	}
	words := []string{"-isolation", "kubernetes", "-cluster", dir, "-cloister", os.Getenv("CLOISTER_CLUSTER_PROGRAM"), "-short", "-v",
		"-run", os.Getenv("ATTEMPTS")}
	if columns := os.Getenv("CLOISTER_COLUMNS"); columns != "" {
		words = append(words, "-columns", columns)
	}
	cmd := exec.CommandContext(t.Context(), program, words...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if left := c.pods(); left != "" {
		t.Errorf("left: %s", left)
	}
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
