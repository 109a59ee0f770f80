package client

import (
	"context"
	"net/http"

	"cloister/api"
	"cloister/internal/exactjson"
)

// Review does what a person decided about one changed file.
func (c *Client) Review(ctx context.Context, d api.ReviewDecision) (api.ReviewEntry, error) {
	d.Project, d.Path = exactjson.Spell(d.Project), exactjson.Spell(d.Path)
	e, err := ask[api.ReviewEntry](ctx, c, http.MethodPost, api.PathReviews, d)
	if err != nil {
		return e, err
	}
	return e, exactjson.Restore(&e)
}
