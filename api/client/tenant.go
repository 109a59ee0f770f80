package client

import (
	"context"
	"net/http"

	"cloister/api"
)

// RecordTenant has the guardian record what a server does for its tenant, which may be
// done only when it returns nil.
func (c *Client) RecordTenant(ctx context.Context, in api.TenantRecord) error {
	_, err := ask[struct{}](ctx, c, http.MethodPost, api.PathTenant, in)
	return err
}
