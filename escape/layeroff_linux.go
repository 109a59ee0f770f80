package escape

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// layerOff makes the tries once more with one layer left out.
func (o Options) layerOff(ctx context.Context, rows []Row, layer Layer, mu *sync.Mutex) error {
	w, err := NewWorld(ctx, o.Dir, o.Off, o.Self, o.Kind, map[string]string{"CLOISTER_LAYER_OFF": string(layer)})
	if err != nil {
		return err
	}
	err = o.layerOffIn(w, rows, layer, mu)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

func (o Options) layerOffIn(w *World, rows []Row, layer Layer, mu *sync.Mutex) error {
	if err := w.Configure(); err != nil {
		return err
	}
	var shared []*Row
	var groups [][]*Row
	for i := range rows {
		c := rows[i].Case
		why, needs := c.Needs[layer]
		switch {
		case c.Tries == nil && needs: // what the host would see is of an attempt that cannot be made
			mu.Lock()
			rows[i].Off[layer] = Off{Untried: why}
			mu.Unlock()
		case c.Tries == nil:
			// Of the host nothing can be known to be another without a layer that the
			// case does not name.
			if c.names(layer) {
				groups = append(groups, []*Row{{Case: c}})
			}
		case own(c):
			if c.names(layer) || needs {
				groups = append(groups, []*Row{{Case: c}})
			}
		default:
			shared = append(shared, &Row{Case: c})
		}
	}
	if len(shared) > 0 {
		groups = append([][]*Row{shared}, groups...)
	}
	for _, group := range groups {
		// Without a layer an earlier attempt may have taken it away.
		if err := errors.Join(w.files(), w.hooks()); err != nil {
			return err
		}
		if err := w.prepare(group[0].Case, len(group) == 1); err != nil {
			return err
		}
		w.unbooted = 0
		if group[0].Case.Tries == nil {
			group[0].look(w)
			if w.unbooted > 0 {
				group[0].fail("%d machines did not boot", w.unbooted)
			}
		} else if err := w.attempt(group); err != nil {
			return err
		}
		mu.Lock()
		for _, g := range group {
			i := slices.IndexFunc(rows, func(r Row) bool { return r.Case.ID == g.Case.ID })
			rows[i].without(layer, g)
		}
		mu.Unlock()
	}
	return nil
}
