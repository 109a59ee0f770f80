package requests

import (
	"path/filepath"
	"slices"

	"cloister/api"
	"cloister/guardian/sealed"
)

// How much of its own a session may bring.
const (
	maxRulesOfOne  = 1000
	maxResiduesOne = 100
	maxPublished   = 100
)

// Session refuses a request for a session that no honest shim sends.
func Session(req api.SessionRequest) error {
	switch {
	case !filepath.IsAbs(req.Project) || filepath.Clean(req.Project) != req.Project:
		return api.BadRequest("open session: project %q is not a clean absolute path", req.Project)
	case req.Path != "" && (!filepath.IsAbs(req.Path) || filepath.Clean(req.Path) != req.Path):
		return api.BadRequest("open session: path %q is not a clean absolute path", req.Path)
	case req.Isolation == "":
		return api.BadRequest("open session: no isolation named")
	case len(req.Allow)+len(req.Deny) > maxRulesOfOne:
		return api.BadRequest("open session: more than %d rules", maxRulesOfOne)
	case len(req.Writable) > maxResiduesOne ||
		slices.ContainsFunc(req.Writable, func(p string) bool { return !filepath.IsAbs(p) }):
		return api.BadRequest("open session: what is writable is a list of at most %d absolute paths", maxResiduesOne)
	case len(req.Publish) > maxPublished || slices.ContainsFunc(req.Publish, func(p api.Published) bool {
		return p.HostPort == 0 || p.Port == 0
	}):
		return api.BadRequest("open session: what is published is a list of at most %d ports", maxPublished)
	case slices.ContainsFunc(req.Publish, func(p api.Published) bool { return api.WindowPort(p.HostPort) }):
		return api.BadRequest("open session: ports %d to %d of this machine are the window's, and nothing is published there",
			api.WindowFirst, api.WindowLast)
	case len(req.Publish) > 0 && !req.Network:
		return api.BadRequest("open session: nothing can be published without a network")
	case len(req.Accepted) > maxResiduesOne:
		return api.BadRequest("open session: more than %d residues", maxResiduesOne)
	case req.Resume != nil && len(req.Resume.Exec) > api.MaxExec:
		return api.BadRequest("open session: what exec needs is too long")
	case req.Resume != nil && len(req.Resume.Sealed) > sealed.Most:
		return api.BadRequest("open session: its sealed state is too long")
	case req.Resume != nil && req.Resume.CreatedAt.IsZero(): // one in the future is one of a clock that was set back
		return api.BadRequest("open session: resumed without a time of its beginning")
	}
	return nil
}
