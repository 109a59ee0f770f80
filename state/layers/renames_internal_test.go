package layers

import "testing"

// TestRenamesAreBounded: what is too large is no rename, and is not opened: this stack has
// no folder that a file could be opened in.
func TestRenamesAreBounded(t *testing.T) {
	node := Node{Kind: File, Size: maxRename + 1}
	list := []Change{{Path: "old", Op: Deleted, Old: node}, {Path: "new", Op: Added, New: node}}
	out, err := new(Stack).renames(list)
	if err != nil || len(out) != 2 || out[1].Op != Added {
		t.Errorf("%+v, %v", out, err)
	}
}
