package kept

import (
	"context"
	"fmt"
	"strings"

	"cloister/agent"
	"cloister/api"
	"cloister/internal/shellword"
	"cloister/state/layers"
	"cloister/state/store"
)

const (
	// A copy of more would hold the command still for too long (0.03 s for 200 files).
	mostEntries = 3000
	mostBytes   = 128 << 20
)

// TooMuch is the error for an automatic checkpoint that would take too long.
type TooMuch struct {
	Name string
	Size layers.Sum
}

// Error says how much there is, and what makes one nevertheless.
func (e *TooMuch) Error() string {
	return fmt.Sprintf("%d files with %d bytes changed, too many to copy beside the command: "+
		"cloister checkpoint %s makes one", e.Size.Entries, e.Size.Bytes, shellword.Line(e.Name))
}

// SaveByItself makes an automatic checkpoint of a workspace, running or not, where something
// was written since the last one. What stands behind ": " in why is a person's or a payload's:
// it is the checkpoint's, and not in the record. next is the conversation that the agent goes
// on with from there, "" where that is not known.
func (h *Hand) SaveByItself(ctx context.Context, w *store.Workspace, why, next string) (made bool, err error) {
	var size layers.Sum
	for range 3 { // files come and go while a command runs
		if size, err = w.Unsaved(); err == nil {
			break
		}
	}
	switch {
	case err != nil:
		return false, err
	case size.Entries == 0:
		return false, nil
	case size.Entries > mostEntries || size.Bytes > mostBytes:
		return false, &TooMuch{w.Name, size}
	}
	_, err = h.Watched(ctx, w).SaveBeside(ctx, why, next, h.Freezer(ctx, w.Name))
	return err == nil, err
}

// recorded is what the record has of a checkpoint's words.
func recorded(c store.Checkpoint) string {
	if !c.Auto {
		return c.Message
	}
	why, _, _ := strings.Cut(c.Message, ": ")
	return why
}

// beforeApply keeps what a workspace is before some of it is applied. An apply does not
// depend on it: the record has why there is none.
func (h *Hand) beforeApply(ctx context.Context, w *store.Workspace) (note string) {
	if _, err := h.SaveByItself(ctx, w, "before an apply", ""); err != nil {
		return "; no checkpoint before it: " + err.Error()
	}
	return ""
}

// Resumption are the arguments with which an agent goes on in a fork, with a person's words:
// with the conversation of that moment, where that is this agent's and has a name.
func Resumption(w *store.Workspace, f api.Fork, agentName, prompt string) []string {
	conversation := ""
	if c, err := w.Checkpoint(f.Checkpoint); err == nil && agentName == w.Agent {
		conversation = c.Conversation
	}
	return agent.Find(agentName).Resumed(conversation, prompt)
}
