package client

import (
	"context"
	"net/http"
	"net/url"

	"cloister/api"
)

// Devices are the paired phones.
func (c *Client) Devices(ctx context.Context) (api.Devices, error) {
	return ask[api.Devices](ctx, c, http.MethodGet, api.PathDevices, nil)
}

// Pair asks for a code that pairs one phone.
func (c *Client) Pair(ctx context.Context, in api.PairRequest) (api.Pairing, error) {
	return ask[api.Pairing](ctx, c, http.MethodPost, api.PathDevices, in)
}

// Pairing asks how the pairing stands.
func (c *Client) Pairing(ctx context.Context) (api.Pairing, error) {
	return ask[api.Pairing](ctx, c, http.MethodGet, api.PathDevices+"/pairing", nil)
}

// FinishPairing agrees to the phone that shows the same number, or with "" to none.
func (c *Client) FinishPairing(ctx context.Context, code string) (api.Device, error) {
	return ask[api.Device](ctx, c, http.MethodPost, api.PathDevices+"/pairing", api.PairWord{Code: code})
}

// Unpair forgets a phone.
func (c *Client) Unpair(ctx context.Context, name string) (api.Device, error) {
	return ask[api.Device](ctx, c, http.MethodPost, api.PathDevices+"/"+url.PathEscape(name)+"/remove", nil)
}
