package sealed

import (
	"bytes"
	"path/filepath"
	"testing"

	"cloister/api"
)

func TestMemory(t *testing.T) {
	k := &Key{Path: filepath.Join(t.TempDir(), "key")}
	m := api.Memory{Session: "0a", Checkpoint: "abcdefgh", Digest: "d1"}
	var err error
	if m.Seal, err = k.SealMemory(m, []byte("authority"), "the key"); err != nil {
		t.Fatal(err)
	}
	if s, err := k.OpenMemory(m); err != nil || string(s.Authority) != "authority" || s.MemoryKey != "the key" {
		t.Fatalf("%q, %q, %v", s.Authority, s.MemoryKey, err)
	}
	if bytes.Contains(m.Seal, []byte("the key")) {
		t.Error("the key can be read in its seal")
	}
	other := &Key{Path: filepath.Join(t.TempDir(), "key")}
	if _, err := other.OpenMemory(m); err == nil {
		t.Error("another instance opened it")
	}
	for what, change := range map[string]func(*api.Memory){
		"session": func(m *api.Memory) { m.Session = "0b" }, "checkpoint": func(m *api.Memory) { m.Checkpoint = "abcdefgi" },
		"digest": func(m *api.Memory) { m.Digest = "d2" }, "seal": func(m *api.Memory) { m.Seal = m.Seal[1:] },
		"no seal": func(m *api.Memory) { m.Seal = nil },
	} {
		c := m
		change(&c)
		if _, err := k.OpenMemory(c); err == nil {
			t.Errorf("with another %s it was opened", what)
		}
	}
	// A session's sealed state is no image's.
	state, err := k.Seal("0a", State{})
	if err != nil {
		t.Fatal(err)
	}
	m.Seal = state
	if _, err := k.OpenMemory(m); err == nil {
		t.Error("a session's state passed for an image's seal")
	}
}
