package client

import (
	"context"
	"net/http"

	"cloister/api"
)

// RecordState has the guardian record a change of a kept workspace, which may be made
// only when it returns nil.
func (c *Client) RecordState(ctx context.Context, in api.StateRecord) error {
	_, err := ask[api.StateRecorded](ctx, c, http.MethodPost, api.PathState, in)
	return err
}

// SealMemory has the guardian record that a session's memory was kept, and gives its seal of
// the image with that digest.
func (c *Client) SealMemory(ctx context.Context, in api.StateRecord) ([]byte, error) {
	out, err := ask[api.StateRecorded](ctx, c, http.MethodPost, api.PathState, in)
	return out.Seal, err
}

// MemoryKey asks for the key of an image that is encrypted.
func (c *Client) MemoryKey(ctx context.Context, m api.Memory) (string, error) {
	out, err := ask[api.MemoryKey](ctx, c, http.MethodPost, api.PathMemoryKey, m)
	return out.Key, err
}
