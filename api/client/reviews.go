package client

import (
	"context"
	"net/http"

	"cloister/api"
)

// Review does what a person decided about one changed file.
func (c *Client) Review(ctx context.Context, d api.ReviewDecision) (api.ReviewEntry, error) {
	return ask[api.ReviewEntry](ctx, c, http.MethodPost, api.PathReviews, d)
}
