package client

import (
	"context"
	"errors"
	"fmt"
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

// ReviewAll does what a person decided about several changed files of a project; each has
// its entry, with an error where nothing was done about it.
func (c *Client) ReviewAll(ctx context.Context, project string, paths []string, decision string) ([]api.ReviewEntry,
	error) {
	d := api.ReviewDecision{Project: exactjson.Spell(project), Decision: decision}
	for _, path := range paths {
		d.Paths = append(d.Paths, exactjson.Spell(path))
	}
	all, err := ask[[]api.ReviewEntry](ctx, c, http.MethodPost, api.PathReviews, d)
	if err == nil && len(all) != len(paths) {
		err = fmt.Errorf("review: %d answers about %d files", len(all), len(paths))
	}
	for i := range all {
		err = errors.Join(err, exactjson.Restore(&all[i]))
	}
	return all, err
}
