package guardian

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"

	"cloister/api"
	"cloister/egress"
	"cloister/guardian/sealed"
	"cloister/internal/exactjson"
	"cloister/policyset"
)

// A trust is what the programs of a session are made to trust, and how the next
// guardian will have it.
type trust struct {
	authority, known string
	sealed           []byte
	notices          []string
}

// unseal takes the placeholders of a session that is taken back from its sealed state,
// and holds it to the words that it was granted with. State that cannot be opened gives
// nothing: what would need it is refused later, with words.
func (g *guardian) unseal(req *api.SessionRequest) error {
	if req.Resume == nil {
		return nil
	}
	state, err := g.seals.Open(req.Resume.ID, req.Resume.Sealed)
	if err != nil {
		g.log.Warn("adopt session", "session", req.Resume.Name, "error", err)
		return nil
	}
	words, err := wordsDigest(req.Project, policyset.SessionRulesOf(*req))
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(words, state.Words) == 0 {
		return &api.Error{
			Status: http.StatusForbidden, Code: api.CodeBadRequest,
			Message: "open session: it was granted with other words than it is offered with now",
			Hints:   []string{"start the session again"},
		}
	}
	req.Resume.Secrets = state.Secrets
	g.recall(state.Values)
	return nil
}

// wordsDigest is of what a session brings that policy is made of.
func wordsDigest(project string, words policyset.SessionRules) ([]byte, error) {
	words.Answers = nil
	text, err := exactjson.Marshal(struct {
		Project string
		Words   policyset.SessionRules
	}{project, words})
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// trusted gives the session its authority and host key: new ones, or those that it had
// under a guardian that is gone.
func (g *guardian) trusted(l *live, req api.SessionRequest, given []api.Placeholder) (t trust, err error) {
	var from sealed.State
	if req.Memory != nil && req.Resume == nil {
		if from, err = g.seals.OpenMemory(*req.Memory); err != nil {
			return t, err
		}
	}
	if !req.Network {
		return t, nil
	}
	state := sealed.State{Secrets: given}
	if state.Words, err = wordsDigest(req.Project, policyset.SessionRulesOf(req)); err != nil {
		return t, err
	}
	if req.Resume != nil {
		had, err := g.seals.Open(l.Info.ID, req.Resume.Sealed)
		if err == nil {
			l.ca, err = egress.RestoreCA(had.Authority)
		}
		if err == nil && len(had.HostKey) > 0 {
			l.hostKey, err = egress.RestoreHostKey(had.HostKey)
		}
		if err != nil {
			t.notices = []string{"the authority of this session is gone with its guardian, so connections that have to be " +
				"inspected are refused: start it again (" + err.Error() + ")"}
			return t, nil
		}
		l.state, t.sealed = had, req.Resume.Sealed
		return t, nil
	}
	if len(from.Authority) > 0 { // the programs in that memory trust it, and no other
		l.ca, err = egress.RestoreCA(from.Authority)
	} else {
		l.ca, err = g.authorities.Take()
	}
	if err == nil {
		t.known, err = l.hostKnown(l.Snapshot.Load())
	}
	if err == nil {
		state.Authority, err = l.ca.Marshal()
	}
	if err != nil {
		return t, err
	}
	if l.hostKey != nil {
		state.HostKey = l.hostKey.Marshal()
	}
	t.authority = string(l.ca.PEM())
	l.state = state
	l.sealedOf.Store(g.values.Version())
	t.sealed, err = l.seal()
	return t, err
}
