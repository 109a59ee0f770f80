package client

import (
	"context"
	"net/http"
	"net/url"

	"cloister/api"
)

// Tool has a call of Cloister's own MCP server decided and recorded. It may wait for a
// person as long as ctx lives.
func (c *Client) Tool(ctx context.Context, session string, of api.ToolCall) (api.ToolVerdict, error) {
	return call[api.ToolVerdict](ctx, c, http.MethodPost, api.PathSessions+"/"+url.PathEscape(session)+"/tool", of)
}
