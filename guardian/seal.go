package guardian

import (
	"fmt"
	"maps"
	"slices"

	"cloister/api"
	"cloister/guardian/sealed"
	"cloister/secret"
)

// learn remembers what a secret is, for the scrubbers of this guardian and, sealed in
// the hands of the shims, for those of the next.
func (g *guardian) learn(name string, value secret.Value) {
	if !g.values.Learn(name, value) {
		return
	}
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.live))
	g.mu.Unlock()
	for _, l := range all {
		if err := l.reseal(); err != nil {
			l.g.log.Error("seal session state", "session", l.Info.Name, "error", err)
			l.ask("its next guardian would not know what to keep from it: " + err.Error())
		}
	}
}

// reseal gives the shim the state for the next guardian, where a value is new since the
// last. Before its shim has it, no session may use one.
func (l *live) reseal() error {
	if l.secrets.Load() == nil || l.sealedOf.Load() == l.g.values.Version() {
		return nil
	}
	select {
	case <-l.ready:
	default:
		return nil // nothing passes yet; it comes behind the grant
	}
	l.sealing.Lock()
	defer l.sealing.Unlock()
	version := l.g.values.Version() // first: what is learned meanwhile is sealed next
	text, err := l.seal()
	if err == nil && text != nil {
		err = l.send(api.Frame{Type: api.FrameSealed, Sealed: text})
	}
	if err != nil {
		return fmt.Errorf("keep what the next guardian needs: %w", err)
	}
	l.sealedOf.Store(version)
	return nil
}

// seal is the state for the next guardian; nil where the session's own is lost.
func (l *live) seal() ([]byte, error) {
	if len(l.state.Authority) == 0 {
		return nil, nil
	}
	state := l.state
	state.Values = l.g.known(state.Secrets)
	return l.g.seals.Seal(l.Info.ID, state)
}

// known are the values of a session's secrets, the oldest first; of more than may be
// sealed, the last of each.
func (g *guardian) known(given []api.Placeholder) (out []sealed.Known) {
	for _, p := range given {
		if !slices.ContainsFunc(out, func(k sealed.Known) bool { return k.Name == p.Name }) {
			out = append(out, sealed.Known{Name: p.Name})
		}
	}
	for i := range out {
		room := sealed.MostValues / len(out)
		for _, v := range slices.Backward(g.values.Of(out[i].Name)) {
			text := []byte(v.Reveal())
			if room -= len(text); room < 0 {
				break
			}
			out[i].Values = append(out[i].Values, text)
		}
		slices.Reverse(out[i].Values)
	}
	return out
}

// recall learns what an earlier guardian knew of a session's secrets.
func (g *guardian) recall(list []sealed.Known) {
	for _, k := range list {
		for _, text := range k.Values {
			g.values.Learn(k.Name, secret.Seal(string(text)))
		}
	}
}
