//go:build linux

package guardian_test

import (
	"path/filepath"
	"testing"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/folders"
	"cloister/guardian/sealed"
)

// TestMemoryKeyIsRecorded: who asks for the key of an image gets it once that is on record, and what is no image of this
// guardian's is on record as refused.
func TestMemoryKeyIsRecorded(t *testing.T) {
	root := home(t, twoNames)
	spawn(t, root)
	c := dial(t, root)
	seals := sealed.Key{Path: filepath.Join(dirs(root).State, "session.key")}
	m := api.Memory{Session: "0a1b2c3d4e5f", Checkpoint: "abcdefgh", Digest: "d1"}
	var err error
	if m.Seal, err = seals.SealMemory(m, nil, "the key"); err != nil {
		t.Fatal(err)
	}
	if key, err := c.MemoryKey(t.Context(), m); err != nil || key != "the key" {
		t.Errorf("%q, %v", key, err)
	}
	m.Checkpoint = "another"
	if key, err := c.MemoryKey(t.Context(), m); err == nil {
		t.Errorf("another image's seal gave %q", key)
	}
	var got []string
	for e, err := range audit.Read(folders.Audit(dirs(root)), audit.Filter{Kind: audit.StateMemory}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Action+" "+e.SessionID+" "+e.Resource+" "+e.Verdict)
	}
	if len(got) != 2 || got[0] != "key 0a1b2c3d4e5f abcdefgh allow" || got[1] != "key 0a1b2c3d4e5f another deny" {
		t.Errorf("on record are %q", got)
	}
}
