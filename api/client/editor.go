package client

import (
	"context"
	"net/http"
	"net/url"

	"cloister/api"
)

// EditorUse records what an agent wanted of its editor, or got of it. An error means that
// it is not recorded, and must not be done.
func (c *Client) EditorUse(ctx context.Context, session string, of api.EditorUse) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, api.PathSessions+"/"+url.PathEscape(session)+"/editor", of)
	return err
}

// Files records what a command that joined a session did with files and programs.
func (c *Client) Files(ctx context.Context, session string, list []api.FileEvent) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, api.PathSessions+"/"+url.PathEscape(session)+"/files", list)
	return err
}
