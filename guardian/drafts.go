package guardian

import (
	"context"
	"net/http"
	"slices"

	"cloister/api"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/folders"
	"cloister/policy"
	"cloister/policyset/drafts"
)

// drafts are the files of the configuration, as the window changes them.
func (g *guardian) drafts() drafts.Files { return drafts.Files{Policies: g.policies} }

func (g *guardian) getPolicyFiles(http.ResponseWriter, *http.Request) (any, error) {
	return g.drafts().List()
}

func (g *guardian) postPolicyDraft(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.PolicyDraft](r)
	if err != nil {
		return nil, err
	}
	return g.drafts().Check(req.Name, req.Text)
}

// postPolicyFile writes a file that was checked, and puts it in force.
func (g *guardian) postPolicyFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.PolicyDraft](r)
	if err != nil {
		return nil, err
	}
	path, err := g.drafts().Ready(req)
	if err != nil {
		return nil, err // nothing is saved
	}
	if err := g.recordSave(r, path, req.Text); err != nil {
		return nil, err
	}
	if err := drafts.Write(path, req); err != nil {
		return nil, err
	}
	return g.reload(r.Context())
}

// recordSave tells the record who saves what, before it is done: what cannot be
// recorded is not saved.
func (g *guardian) recordSave(r *http.Request, path, text string) error {
	if err := g.records.Append(context.WithoutCancel(r.Context()), audit.Event{
		Kind: audit.PolicyLoad, Action: "save", Resource: path, Verdict: policy.Allow.String(),
		Reason: "a person said so: " + whoAnswers(r, ""), Digest: config.Digest([]byte(text)),
		Policy: g.policies.Current().Snapshot().Digest(),
	}); err != nil {
		return api.Unrecorded("save", err)
	}
	return nil
}

func (g *guardian) postRuleDraft(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.RuleDraft](r)
	if err != nil {
		return nil, err
	}
	return g.drafts().Rule(req)
}

// maxSeen is how many destinations an editor receives.
const maxSeen = 300

// getPolicyWords gives an editor what it completes with.
func (g *guardian) getPolicyWords(http.ResponseWriter, *http.Request) (any, error) {
	out, err := drafts.Words()
	if err != nil {
		return nil, err
	}
	looked := 0
	for e, err := range audit.Back(folders.Audit(g.o.Dirs), audit.Filter{}) {
		if looked++; looked > 20_000 || len(out.Hosts) == maxSeen {
			break
		}
		if err == nil && e.Host != "" && !slices.Contains(out.Hosts, e.Host) {
			out.Hosts = append(out.Hosts, e.Host)
		}
	}
	return out, nil
}
