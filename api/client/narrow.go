package client

import (
	"context"
	"net/http"
	"net/url"

	"cloister/api"
)

// NarrowSession replaces what is taken away from a session's policy while it lives. When it
// returns nil, connections that are not allowed any more are closed.
func (c *Client) NarrowSession(ctx context.Context, name string, in api.SessionNarrow) error {
	_, err := ask[struct{}](ctx, c, http.MethodPost, api.PathSessions+"/"+url.PathEscape(name)+"/narrow", in)
	return err
}
