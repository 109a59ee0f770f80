package client

import (
	"context"
	"net/http"
	"net/url"

	"cloister/api"
)

// maxWorkspaces bounds a list, in bytes: a workspace may have a thousand checkpoints, each with
// what an agent was asked for.
const maxWorkspaces = 64 << 20

// Workspaces lists the kept workspaces with their checkpoints. It waits for a comparison that
// the guardian is at.
func (c *Client) Workspaces(ctx context.Context) ([]api.Workspace, error) {
	return callUpTo[[]api.Workspace](ctx, c, maxWorkspaces, http.MethodGet, api.PathWorkspaces, nil)
}

// WorkspaceDiff gives what a workspace changed until a checkpoint, "" for now: otherwise than
// the project, or than another checkpoint (since), with the text of a path. Lines are counted
// where there is none. It takes as long as the comparison does.
func (c *Client) WorkspaceDiff(ctx context.Context, name, at, since, path string) (api.WorkspaceDiff, error) {
	words := url.Values{"at": {at}, "since": {since}}
	if words.Set("path", path); path == "" {
		words.Set("lines", "1")
	}
	return call[api.WorkspaceDiff](ctx, c, http.MethodGet,
		api.PathWorkspaces+"/"+url.PathEscape(name)+"/diff?"+words.Encode(), nil)
}

// Act has something done to a workspace, and returns when it is done.
func (c *Client) Act(ctx context.Context, name, verb string, in api.WorkspaceAct) (api.WorkspaceActed, error) {
	return call[api.WorkspaceActed](ctx, c, http.MethodPost, api.PathWorkspaces+"/"+url.PathEscape(name)+"/"+verb, in)
}

// Recorded gives what was recorded last of a session, by its name, the newest first.
func (c *Client) Recorded(ctx context.Context, session string) (api.Records, error) {
	return call[api.Records](ctx, c, http.MethodGet, api.PathAudit+"?limit=500&session="+url.QueryEscape(session), nil)
}
