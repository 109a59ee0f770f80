// Package unchanged notes which workspaces were removed because their session changed
// nothing, so that they differ from those that never were.
//
// It keeps the newest hundred, in one file of the store's folder.
package unchanged

import (
	"errors"
	"path/filepath"
	"slices"

	"cloister/internal/durable"
	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
)

const (
	name    = "unchanged.json"
	most    = 100
	maxFile = 1 << 20 // bytes
)

type one struct {
	Name    string `json:"name"`
	Project string `json:"project"`
}

// Note notes a workspace of a project in a folder.
func Note(dir, workspace, project string) error {
	return durable.Update(filepath.Join(dir, name), 0o600, func(text []byte) ([]byte, error) {
		var list []one
		_ = exactjson.Unmarshal(text, &list) // a list that cannot be read begins anew
		is := one{workspace, project}
		list = append(slices.DeleteFunc(list, func(u one) bool { return u == is }), is)
		return exactjson.Marshal(list[max(0, len(list)-most):])
	})
}

// Has reports whether a workspace of that name is noted, or, without a name, one of that
// project.
func Has(dir, workspace, project string) bool {
	text, err := ownfile.Read(filepath.Join(dir, name), maxFile)
	var list []one
	if errors.Join(err, exactjson.Unmarshal(text, &list)) != nil {
		return false
	}
	return slices.ContainsFunc(list, func(u one) bool {
		return u.Name == workspace || workspace == "" && u.Project == project
	})
}
