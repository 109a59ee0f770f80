package vault

import (
	"cloister/secret"
)

// Known are the values that the vault has now, in the parts that give access alone,
// to be taken out of a stream: what is stored, what logins hold, and what commands
// printed last. No command is run for it.
func (v *Vault) Known() []secret.Scrubbed {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []secret.Scrubbed
	for _, list := range []map[string]*held{v.items, v.aside} {
		for name, h := range list {
			if h.value.IsZero() {
				continue
			}
			for _, piece := range secret.Pieces(h.value) {
				out = append(out, secret.Scrubbed{Value: piece, Placeholder: "[secret " + name + "]"})
			}
		}
	}
	return out
}
