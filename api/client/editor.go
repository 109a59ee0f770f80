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
