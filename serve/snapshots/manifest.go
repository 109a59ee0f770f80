package snapshots

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cloister/serve/database"
	"cloister/serve/objects"
	"cloister/serve/tenants"
)

// manifest is what a snapshot consists of.
type manifest struct {
	Version  int      `json:"v"`
	Snapshot Snapshot `json:"snapshot"`
	Chunks   []chunk  `json:"chunks"` // in their order

	row  database.Snap
	cell string
}

// chunk is a piece of a stream.
type chunk struct {
	Name string `json:"n"`  // of its bytes
	In   string `json:"in"` // the snapshot below whose ID it lies
	Size int    `json:"s"`
}

const (
	manifestVersion = 1
	mostManifest    = 8 << 20
)

func manifestPlace(cell, id string) string { return cell + "/" + id + "/manifest" }

func (c chunk) place(cell string) string { return cell + "/" + c.In + "/" + c.Name }

// uses are the other snapshots below whose IDs chunks lie.
func (m *manifest) uses() []string {
	out := []string{}
	for _, one := range m.Chunks {
		if one.In != m.Snapshot.ID && !slices.Contains(out, one.In) {
			out = append(out, one.In)
		}
	}
	return out
}

// manifest reads the one of a row, which must be that tenant's and that snapshot's.
func (c *Cell) manifest(ctx context.Context, t tenants.Tenant, cell string, row database.Snap) (*manifest, error) {
	seal, err := c.Keys.of(row.Key, cell, t)
	if err != nil {
		return nil, &Bad{row.ID, err}
	}
	place := manifestPlace(cell, row.ID)
	text, err := fetch(ctx, c.Bucket, seal, row.ID, place, mostManifest)
	if err != nil {
		return nil, err
	}
	m := &manifest{row: row, cell: cell}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, &Bad{row.ID, err}
	}
	if err := m.check(t); err != nil {
		return nil, &Bad{row.ID, err}
	}
	return m, nil
}

// check looks at what a server of this cell wrote: another release, or one with a defect.
func (m *manifest) check(t tenants.Tenant) error {
	left := int64(Most)
	for _, one := range m.Chunks {
		raw, err := hex.DecodeString(one.Name)
		if left -= int64(one.Size); err != nil || len(raw) != keyBytes || !IsID(one.In) || one.Size < 1 ||
			one.Size > mostChunk || left < 0 {
			return errors.New("a chunk of its manifest cannot be")
		}
	}
	switch {
	case m.Version != manifestVersion:
		return fmt.Errorf("its manifest has version %d, want %d", m.Version, manifestVersion)
	case m.Snapshot.ID != m.row.ID || m.Snapshot.Tenant != t.Name:
		return errors.New("its manifest is another's")
	}
	return nil
}

// fetch reads an object that was sealed for its place.
func fetch(ctx context.Context, b Bucket, seal *sealer, id, place string, most int) ([]byte, error) {
	sealed, err := b.Get(ctx, place, most+overhead)
	if errors.Is(err, objects.ErrMissing) || errors.Is(err, objects.ErrLarge) {
		return nil, &Bad{id, fmt.Errorf("%s: %w", place, err)}
	}
	if err != nil {
		return nil, &Away{err}
	}
	text, err := seal.open(place, sealed)
	if err != nil {
		return nil, &Bad{id, fmt.Errorf("%s: %w", place, err)}
	}
	return text, nil
}
