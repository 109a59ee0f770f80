package terminal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"cloister/api"
	"cloister/api/client"
)

// FollowQuestions sends what of one session waits for a person, whenever that changes, as long
// as ctx lasts; where the guardian does not answer, it tries again after a time.
func FollowQuestions(ctx context.Context, dial func(context.Context) (*client.Client, error), again time.Duration,
	info api.SessionInfo, asked chan<- Asked) {
	for ctx.Err() == nil {
		if c, err := dial(ctx); err == nil {
			err = follow(ctx, c, info, asked)
			c.Close()
			if _, refused := errors.AsType[*api.Error](err); refused {
				return // it has ended, or too many watch
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

func follow(ctx context.Context, c *client.Client, info api.SessionInfo, asked chan<- Asked) error {
	pending := map[string]api.Approval{}
	take := func(i api.Approval) {
		if i.Session == info.Name && i.State == "pending" {
			pending[i.ID] = i
		} else {
			delete(pending, i.ID)
		}
	}
	return c.EventsOf(ctx, info.ID, func(e api.Event) bool {
		switch e.Type {
		case api.EventHello, api.EventReset:
			list, err := c.Approvals(ctx, false)
			if err != nil {
				return false
			}
			clear(pending)
			for _, i := range list {
				take(i)
			}
		case api.EventApproval:
			var i api.Approval
			if json.Unmarshal(e.Data, &i) != nil {
				return false
			}
			take(i)
		default:
			return true
		}
		oldest := slices.SortedFunc(maps.Values(pending), func(x, y api.Approval) int {
			return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
		})
		select {
		case asked <- AskedOf(oldest):
			return true
		case <-ctx.Done():
			return false
		}
	})
}
