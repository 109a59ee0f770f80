package client

import (
	"context"
	"net/http"
	"net/url"

	"cloister/api"
)

// MCP lists the declared MCP servers.
func (c *Client) MCP(ctx context.Context, of api.MCPProject) ([]api.MCPServer, error) {
	return ask[[]api.MCPServer](ctx, c, http.MethodPost, api.PathMCP, of)
}

// MCPServer is one of them, with its tools.
func (c *Client) MCPServer(ctx context.Context, name string, of api.MCPProject) (api.MCPServer, error) {
	return ask[api.MCPServer](ctx, c, http.MethodPost, api.PathMCP+"/"+url.PathEscape(name), of)
}

// MCPPin takes what a server says of its tools now, or forgets them.
func (c *Client) MCPPin(ctx context.Context, name string, req api.MCPPin) (api.MCPPinned, error) {
	return ask[api.MCPPinned](ctx, c, http.MethodPost, api.PathMCP+"/"+url.PathEscape(name)+"/pin", req)
}
