package devcontainer

import "strings"

// Text is the devcontainer.json as it was read.
func (d *Devcontainer) Text() string { return string(d.files.all[d.File].text) }

// known are the places whose features are fetched for whoever trusts the devcontainer,
// without another word: those that the specification's own authors publish.
var known = []string{"ghcr.io/devcontainers/features/", "ghcr.io/devcontainers-extra/features/"}

// KnownSource reports whether a feature's place is one of the usual ones.
func KnownSource(id string) bool {
	for _, k := range known {
		if strings.HasPrefix(id, k) {
			return true
		}
	}
	return false
}

// HasFeatures reports whether something is installed on top of the image.
func (d *Devcontainer) HasFeatures() bool {
	list, ok := d.Config["features"].(map[string]any)
	return ok && len(list) > 0
}
