package guardian

import (
	"errors"
	"net/http"

	"cloister/api"
	"cloister/audit"
	"cloister/internal/exactjson"
	"cloister/internal/termsafe"
	"cloister/workspace/review"
)

func (g *guardian) reviews() review.Store {
	return review.In(g.o.Dirs.State)
}

// getReviews is what sessions changed that programs of the host may run.
func (g *guardian) getReviews(http.ResponseWriter, *http.Request) (any, error) {
	all, err := g.reviews().All()
	out := []api.ReviewEntry{}
	for _, p := range all {
		for _, e := range p.Entries {
			if e.State == review.Waiting {
				out = append(out, entry(e.Path, p.Root, e))
			}
		}
	}
	return out, err
}

// postReview does what a person decided about changed files, once it is recorded.
func (g *guardian) postReview(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.ReviewDecision](r)
	if err != nil {
		return nil, err
	}
	if err := exactjson.Restore(&req); err != nil {
		return nil, api.BadRequest("review: %v", err)
	}
	several := len(req.Paths) > 0
	if several == (req.Path != "") || len(req.Paths) > api.MostReviewed {
		return nil, api.BadRequest("review: one path, or up to %d paths", api.MostReviewed)
	}
	decision := review.Decision(req.Decision)
	if decision == review.Clean && !several {
		e := audit.Event{Kind: audit.FileReview, Action: req.Decision, Project: req.Project, Resource: req.Path,
			Reason: "removed by cloister project clean"}
		return entry(req.Path, req.Project, review.Entry{State: "recorded"}), g.records.Append(r.Context(), e)
	}
	if decision.State() == "" {
		return nil, api.BadRequest("review: %q is none of keep, revert, trust, clean", termsafe.Clip(req.Decision, 20))
	}
	if !several {
		req.Paths = []string{req.Path}
	}
	outcomes, err := g.reviews().DecideAll(req.Project, req.Paths, decision, func(e review.Entry) error {
		return g.records.Append(r.Context(), audit.Event{
			Kind: audit.FileReview, Action: req.Decision, Session: e.By, SessionID: e.Session, Project: req.Project,
			Resource: e.Path, Digest: e.Is.Digest, Reason: "changed by " + e.By + ": " + e.Why,
		})
	})
	if err != nil {
		return nil, notReviewed(err)
	}
	out := make([]api.ReviewEntry, len(outcomes))
	for i, o := range outcomes {
		out[i] = entry(req.Paths[i], req.Project, o.Entry)
		if o.Err != nil {
			out[i].Error = notReviewed(o.Err)
		}
	}
	if several {
		return out, nil
	}
	if err := out[0].Error; err != nil {
		return nil, err
	}
	return out[0], nil
}

// notReviewed is the error of a decision that could not be done.
func notReviewed(err error) *api.Error {
	out := &api.Error{Status: http.StatusConflict, Code: api.CodeBadRequest, Message: termsafe.Text(err.Error())}
	var hints interface{ Hints() []string }
	if errors.As(err, &hints) {
		out.Hints = hints.Hints()
	}
	return out
}

// entry is a change with its paths spelled: JSON has no others than UTF-8.
func entry(path, project string, e review.Entry) api.ReviewEntry {
	return api.ReviewEntry{Path: exactjson.Spell(path), By: e.By, Why: e.Why, State: string(e.State),
		Project: exactjson.Spell(project)}
}
