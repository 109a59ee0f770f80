package sealed

import (
	"fmt"
	"net/http"

	"cloister/api"
)

// SealMemory seals the image of a session's memory: it is bound to what the claim says of it,
// and holds the authority that the programs in that memory trust, and the image's key where it is encrypted.
func (k *Key) SealMemory(m api.Memory, authority []byte, key string) ([]byte, error) {
	return k.Seal(m.Bound(), State{Authority: authority, MemoryKey: key})
}

// OpenMemory opens the seal of the image that a session goes on from. What another instance
// sealed, and what was changed since, does not go on.
func (k *Key) OpenMemory(m api.Memory) (State, error) {
	had, err := k.Open(m.Bound(), m.Seal)
	if err != nil {
		return had, &api.Error{Status: http.StatusForbidden, Code: api.CodeBadRequest,
			Message: fmt.Sprintf("open session: the memory of checkpoint %s was not kept by this guardian, or was changed",
				m.Checkpoint),
			Hints: []string{"keep it again: cloister checkpoint NAME --memory"}}
	}
	return had, nil
}
