package guardian

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"cloister/api"
	"cloister/policyset"
)

// postNarrow replaces what is taken away from a session's policy while it lives.
func (g *guardian) postNarrow(_ http.ResponseWriter, r *http.Request) (any, error) {
	in, err := read[api.SessionNarrow](r)
	if err == nil {
		err = policyset.CheckNarrow(in.Narrow)
	}
	if err != nil {
		return nil, err
	}
	l, err := g.running(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	l.linked() // that it is gone is said next
	return struct{}{}, g.changeSessionRules(context.WithoutCancel(r.Context()), l.Info.ID,
		func(w *policyset.SessionRules) error {
			w.Narrow = in.Narrow
			return nil
		})
}

// passNarrow gives the shim what another guardian must know of rules that are to be in
// force: with a seal over them, where the session has one.
func (l *live) passNarrow(w policyset.SessionRules) error {
	if reflect.DeepEqual(w.Narrow, l.rules.Narrow) {
		return nil
	}
	l.sealing.Lock()
	defer l.sealing.Unlock()
	var err error
	state := l.state
	if len(state.Authority) > 0 {
		if l.state.Words, err = wordsDigest(l.Info.Project, w); err != nil {
			return err
		}
	}
	frame := api.Frame{Type: api.FrameNarrow, Narrow: w.Narrow}
	if frame.Sealed, err = l.seal(); err == nil {
		err = l.send(frame)
	}
	if err != nil {
		l.state = state
		return fmt.Errorf("keep what the next guardian needs: %w", err)
	}
	return nil
}
