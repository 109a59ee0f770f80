package api

// PathState takes records of what is done to kept workspaces.
const PathState = "/v1/state"

// StateRecord is one such act, recorded before it is done.
type StateRecord struct {
	Kind     string `json:"kind"` // state.checkpoint, restore, fork, apply, undo
	Cloister string `json:"cloister"`
	Project  string `json:"project"`
	Resource string `json:"resource"`         // what it is done to: a checkpoint, a path, names
	Reason   string `json:"reason,omitempty"` // in words
	Digest   string `json:"digest,omitempty"` // of the checkpoint's layer
}
