package api

import "time"

// PathState takes records of what is done to kept workspaces.
const PathState = "/v1/state"

// StateRecord is one such act, recorded before it is done.
type StateRecord struct {
	Kind     string `json:"kind"` // state.checkpoint, restore, fork, apply, undo, memory
	Cloister string `json:"cloister"`
	Project  string `json:"project"`
	Resource string `json:"resource"`         // what it is done to: a checkpoint, a path, names
	Reason   string `json:"reason,omitempty"` // in words
	Digest   string `json:"digest,omitempty"` // of the checkpoint's layer
	// Failed says that what was recorded before came to nothing, for the reason.
	Failed bool `json:"failed,omitempty"`
	// Session is the id of the session whose memory it is, for a record of kind state.memory:
	// its answer has the seal of an image with that digest.
	Session string `json:"session,omitempty"`
	// Key opens that image where it is encrypted. It goes into the seal, and is not recorded.
	Key string `json:"key,omitempty"`
}

// PathMemoryKey gives the key of an image that is encrypted to whoever shows its seal.
const PathMemoryKey = "/v1/state/memory-key"

// MemoryKey is that key, an identity of age; "" where the image is in the clear.
type MemoryKey struct {
	Key string `json:"key"`
}

// StateRecorded is the answer to a record.
type StateRecorded struct {
	Seal []byte `json:"seal,omitempty"`
}

// Action is what the record says was done.
func (r StateRecord) Action() string {
	if r.Failed {
		return "failed"
	}
	return "change"
}

// Verdict is that of the record: what failed is no decision.
func (r StateRecord) Verdict() string {
	if r.Failed {
		return ""
	}
	return "allow"
}

// PathWorkspaces lists kept workspaces; each has routes of its own below.
const PathWorkspaces = "/v1/workspaces"

// Change is one path that a kept workspace has otherwise than the project.
type Change struct {
	Path    string `json:"path"`
	Change  string `json:"change"` // added|modified|deleted|renamed|mode
	From    string `json:"from"`   // the path before, of renamed
	Kind    string `json:"kind"`   // file|dir|link|special
	Size    int64  `json:"size"`   // in bytes
	AutoRun bool   `json:"autorun"`
}

// Checkpoint is one kept moment of a workspace.
type Checkpoint struct {
	ID       string    `json:"id"`
	Cloister string    `json:"cloister"`
	Time     time.Time `json:"time"`
	Message  string    `json:"message"`
	Parent   string    `json:"parent"`
	Bytes    int64     `json:"bytes"` // of the files that it added
	Memory   bool      `json:"memory"`
	Auto     bool      `json:"auto"`
}

// Fork is one new workspace.
type Fork struct {
	Name       string `json:"name"`
	Parent     string `json:"parent"`
	Checkpoint string `json:"checkpoint"`
}

// Workspace is a kept workspace with its checkpoints, the oldest first.
type Workspace struct {
	Name        string       `json:"name"`
	Project     string       `json:"project"`
	Agent       string       `json:"agent,omitempty"`
	Running     bool         `json:"running"`
	Busy        bool         `json:"busy"`              // a command changes it right now: the rest is not known
	Head        string       `json:"head"`              // the checkpoint that it goes on from
	Parent      string       `json:"parent,omitempty"`  // NAME@CHECKPOINT of a fork
	Applied     []string     `json:"applied"`           // what was applied and not undone, the newest first
	Problem     string       `json:"problem,omitempty"` // why it cannot be read
	Checkpoints []Checkpoint `json:"checkpoints"`
}

// WorkspaceDiff is what a workspace, or a checkpoint of it, has otherwise than the project.
type WorkspaceDiff struct {
	Changes   []Change  `json:"changes"`
	More      int       `json:"more"`      // changes beyond those listed
	Conflicts []Because `json:"conflicts"` // what the project changed meanwhile
	Held      []Because `json:"held"`      // what an apply brings over with a word alone
	Digest    string    `json:"digest"`    // of all the changes, for an apply
	Patch     string    `json:"patch"`     // of the path that was asked for
	Cut       bool      `json:"cut"`       // the patch is longer than what is shown
	// Lines say in short how much changed in the first of the changes, where that was asked for.
	Lines []string `json:"lines,omitempty"`
	// Unlisted says that there are more conflicts, or more that is held, than those listed.
	Unlisted bool `json:"unlisted,omitempty"`
}

// Because is a path with a reason.
type Because struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// WorkspaceAct is what a person wants done to a kept workspace: checkpoint, restore, fork,
// compare, apply, discard or undo.
type WorkspaceAct struct {
	Checkpoint string `json:"checkpoint,omitempty"` // restore, fork, apply: the moment; "" is now
	Message    string `json:"message,omitempty"`    // checkpoint: what it is; undo: which apply
	Count      int    `json:"count,omitempty"`      // fork: how many; 0 is one
	Prompt     string `json:"prompt,omitempty"`     // fork: what the agent goes on with in each; "" starts none
	// With are the workspaces that this one is compared with.
	With    []string `json:"with,omitempty"`
	Run     string   `json:"run,omitempty"`     // compare: a command of a shell, run in a copy of each
	Digest  string   `json:"digest,omitempty"`  // apply, discard: of what was shown
	AutoRun bool     `json:"autorun,omitempty"` // apply: also what programs of the host run or obey
	// Paths are those of the shown that are chosen, for an apply or a discard; none is all. A
	// discard of all gives the workspace up, with its checkpoints.
	Paths []string `json:"paths,omitempty"`
	// Looked are what of the chosen paths is held and was looked at, where AutoRun is said.
	Looked []string `json:"looked,omitempty"`
}

// WorkspaceActed says what was done.
type WorkspaceActed struct {
	Said       string      `json:"said"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"` // the one made; of a restore the one from before it
	Forks      []Fork      `json:"forks,omitempty"`
	Changes    []Change    `json:"changes,omitempty"` // what an apply brought over
	Compared   *Comparison `json:"compared,omitempty"`
}

// Comparison is what workspaces changed, side by side.
type Comparison struct {
	Names []string       `json:"names"`
	Paths []ComparedPath `json:"paths"`
	More  int            `json:"more"` // paths beyond those listed
	Runs  []TestRun      `json:"runs"` // of each, where a command was run
}

// ComparedPath is one path with what became of it in each, "-" for nothing.
type ComparedPath struct {
	Path  string   `json:"path"`
	Cells []string `json:"cells"`
}

// TestRun is what a command came to in a copy of a workspace.
type TestRun struct {
	Command    string   `json:"command"`
	Status     int      `json:"status"`
	DurationMS int64    `json:"duration_ms"`
	Last       []string `json:"last"` // lines of its output
}
