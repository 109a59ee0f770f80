package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/workspace"
)

// planOf plans with the register of one instance, which lies beside its data.
func planOf(t *testing.T, p workspace.Project, o workspace.Options) (*workspace.View, error) {
	t.Helper()
	o.Host = hostOf(t, o.Data)
	return workspace.Plan(p, o)
}

func hostOf(t *testing.T, data string) *resolve.Resolver {
	t.Helper()
	places, err := taint.Read(filepath.Join(filepath.Dir(data), "register"))
	if err != nil {
		t.Fatal(err)
	}
	return resolve.New(places, os.Getuid())
}
