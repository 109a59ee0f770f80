package guardian

import (
	"context"
	"fmt"
	"net/http"

	"cloister/api"
	"cloister/sandbox"
)

// holdStill holds a session still whose files a checkpoint copies.
func (g *guardian) holdStill(_ context.Context, name string) (func() error, error) {
	info, err := g.sessions.Find(name)
	if err == nil && info.State != api.StateRunning {
		err = fmt.Errorf("hold %s still: it is %s", name, info.State)
	}
	if err != nil {
		return nil, err
	}
	return g.o.Hold(info.Isolation, sandbox.Handle(info.Handle))
}

func (g *guardian) getWorkspaces(_ http.ResponseWriter, r *http.Request) (any, error) {
	return g.workspaces.List(r.Context())
}

func (g *guardian) getWorkspaceDiff(_ http.ResponseWriter, r *http.Request) (any, error) {
	return g.workspaces.Diff(r.Context(), r.PathValue("name"), r.URL.Query())
}

func (g *guardian) postWorkspace(_ http.ResponseWriter, r *http.Request) (any, error) {
	in, err := read[api.WorkspaceAct](r)
	if err != nil {
		return nil, err
	}
	return g.workspaces.Act(r.Context(), r.PathValue("name"), r.PathValue("verb"), in)
}
