package guardian

import (
	"net/http"

	"cloister/api"
	"cloister/policy"
	"cloister/policyset"
	"cloister/policyset/explain"
)

func (g *guardian) getPolicy(_ http.ResponseWriter, r *http.Request) (any, error) {
	s, notices, err := g.snapshotOf(r.URL.Query().Get("session"))
	if err != nil {
		return nil, err
	}
	return api.Policy{Digest: s.Digest(), Mode: s.Mode().String(), Cedar: s.Cedar(), Notices: notices}, nil
}

// snapshotOf is the policy of one live session, or the common one.
func (g *guardian) snapshotOf(name string) (*policy.Snapshot, []string, error) {
	if name == "" {
		now := g.policies.Current()
		return now.Snapshot(), now.Notices(), nil
	}
	l, err := g.running(name)
	if err != nil {
		return nil, nil, err
	}
	s := l.Snapshot.Load()
	return s, policyset.Remarks(s), nil
}

func (g *guardian) getPolicyDigest(http.ResponseWriter, *http.Request) (any, error) {
	return api.PolicyDigest{Digest: g.policies.Current().Snapshot().Digest()}, nil
}

func (g *guardian) postPolicyCheck(http.ResponseWriter, *http.Request) (any, error) {
	c, err := policyset.Check(g.policies.Dir, g.policies.Home, g.policies.Host, nil)
	if err != nil {
		return c, nil // what is wrong is the answer
	}
	c.InForce = c.Digest == g.policies.Current().Snapshot().Digest()
	return c, nil
}

func (g *guardian) postPolicyExplain(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.ExplainRequest](r)
	if err != nil {
		return nil, err
	}
	if req.Session == "" {
		now, notices := g.policies.Upcoming()
		s, err := g.policies.Session(now, req.Project, policyset.SessionRules{Projects: req.Projects})
		if err != nil {
			return nil, err
		}
		in, err := now.Scope(req.Projects)
		if err != nil {
			return nil, err
		}
		x, err := explain.Ask(s, in, req)
		x.Notices = append(notices, x.Notices...)
		return x, err
	}
	l, err := g.running(req.Session)
	if err != nil {
		return nil, err
	}
	req.Session, req.Project, req.Agent = l.Info.Name, l.Info.Project, l.Info.Agent
	return explain.Ask(l.Snapshot.Load(), l.Scope.Load(), req)
}
