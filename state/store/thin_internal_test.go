package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestThin(t *testing.T) {
	now := time.Date(2026, 3, 20, 12, 30, 0, 0, time.UTC)
	ago := func(id string, d time.Duration, auto bool, bytes int64) Checkpoint {
		return Checkpoint{ID: id, Time: now.Add(-d), Auto: auto, Bytes: bytes, Layers: []string{id}}
	}
	for name, tt := range map[string]struct {
		list []Checkpoint
		want string
	}{
		"the last hour stays":   {[]Checkpoint{ago("a", 50*time.Minute, true, 1), ago("b", 40*time.Minute, true, 1), ago("c", 0, true, 1)}, "a b c"},
		"then one of each hour": {[]Checkpoint{ago("a", 5*time.Hour+20*time.Minute, true, 1), ago("b", 5*time.Hour+10*time.Minute, true, 1), ago("c", 0, true, 1)}, "b c"},
		"then one of each day":  {[]Checkpoint{ago("a", 75*time.Hour, true, 1), ago("b", 74*time.Hour, true, 1), ago("c", 0, true, 1)}, "b c"},
		"none after a month":    {[]Checkpoint{ago("a", 40*24*time.Hour, true, 1), ago("c", 0, true, 1)}, "c"},
		"named ones stay":       {[]Checkpoint{ago("a", 40*24*time.Hour, false, 1), ago("b", 40*24*time.Hour, false, 3<<30), ago("c", 0, true, 1)}, "a b c"},
		"the oldest make room":  {[]Checkpoint{ago("a", 3*time.Minute, true, 1<<30), ago("b", 2*time.Minute, true, 1<<30), ago("c", time.Minute, true, 1<<30), ago("d", 0, true, 1<<30)}, "b c d"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Workspace{}
			w.Sums = map[string]string{}
			for i := range tt.list {
				if i > 0 {
					tt.list[i].Parent = tt.list[i-1].ID
				}
				w.Sums[tt.list[i].ID] = "x"
			}
			w.Checkpoints, w.Head = tt.list, tt.list[len(tt.list)-1].ID
			w.thin(now)
			var got []string
			for _, c := range w.Checkpoints {
				got = append(got, c.ID)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %s", got, tt.want)
			}
			for i, c := range w.Checkpoints[1:] {
				if c.Parent != w.Checkpoints[i].ID {
					t.Errorf("%s comes after %q", c.ID, c.Parent)
				}
			}
			if len(w.Sums) != len(got) {
				t.Errorf("digests of %v", w.Sums)
			}
		})
	}
}

// A description of the version before is read; one of a later version is not, and keeps
// what it may need.
func TestVersions(t *testing.T) {
	data, project := t.TempDir(), t.TempDir()
	s, err := Open(data, project)
	if err != nil {
		t.Fatal(err)
	}
	use, err := s.Begin("x", project, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = use.Close()
	write := func(v int) {
		w := &Workspace{store: s}
		if err := w.load("x"); err != nil && v < 3 {
			t.Fatal(err)
		}
		w.meta.Version, w.meta.Name = v, "x"
		w.Checkpoints = []Checkpoint{{ID: "c", Digest: "of another kind"}}
		if err := w.save(); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	w, err := s.Lock("x")
	if err != nil {
		t.Fatal(err)
	}
	if c := w.Checkpoints[0]; c.Digest != "" || w.verify(c) != nil {
		t.Errorf("a checkpoint of version 1: %+v, %v", c, w.verify(c))
	}
	_ = w.Close()
	write(version + 1)
	if _, err := s.Lock("x"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("it has version %d", version+1)) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Collect(false); err == nil {
		t.Error("layers were removed that a later version may need")
	}
	if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"x"}) {
		t.Error(names, err)
	}
}
