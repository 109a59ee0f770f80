package devcontainer

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// CloisterName is the name of the cloister that is started of a devcontainer in the
// background: another file of the project, or another project, has another name.
func (d *Devcontainer) CloisterName(root string) string {
	sum := sha256.Sum256([]byte(root + "\x00" + d.File))
	return "devcontainer-" + hex.EncodeToString(sum[:6])
}

// ImageName is the name of the image that is built of a devcontainer in these bytes, or of
// one of its services.
func (d *Devcontainer) ImageName(project, service string) string {
	sum := sha256.Sum256([]byte(project + "\x00" + d.File + "\x00" + service))
	digest := strings.TrimPrefix(d.Digest, "sha256:")
	return "devcontainer/" + hex.EncodeToString(sum[:8]) + ":" + digest[:min(24, len(digest))]
}
