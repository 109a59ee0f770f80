package client

import (
	"context"
	"net/http"

	"cloister/api"
)

// RecordState has the guardian record a change of a kept workspace, which may be made
// only when it returns nil.
func (c *Client) RecordState(ctx context.Context, in api.StateRecord) error {
	_, err := ask[struct{}](ctx, c, http.MethodPost, api.PathState, in)
	return err
}
