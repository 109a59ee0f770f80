package client

import (
	"context"
	"net/http"
	"net/url"

	"cloister/api"
)

// Secrets lists the secrets, without their values.
func (c *Client) Secrets(ctx context.Context) (api.Secrets, error) {
	return ask[api.Secrets](ctx, c, http.MethodGet, api.PathSecrets, nil)
}

// Secret tells of one secret.
func (c *Client) Secret(ctx context.Context, name string) (api.Secret, error) {
	return ask[api.Secret](ctx, c, http.MethodGet, api.PathSecrets+"/"+url.PathEscape(name), nil)
}

// SetSecret sets one. With a command it waits until that has printed the value.
func (c *Client) SetSecret(ctx context.Context, name string, s api.SecretSet) (api.Secret, error) {
	return call[api.Secret](ctx, c, http.MethodPost, api.PathSecrets+"/"+url.PathEscape(name), s)
}

// Login begins a login to a service.
func (c *Client) Login(ctx context.Context, service string) (api.LoginBegun, error) {
	return call[api.LoginBegun](ctx, c, http.MethodPost, api.PathLogins+"/"+url.PathEscape(service), struct{}{})
}

// FinishLogin waits until the person has agreed; with an answer it gives that to
// whoever waits.
func (c *Client) FinishLogin(ctx context.Context, service string, f api.LoginFinish) (api.Secret, error) {
	return call[api.Secret](ctx, c, http.MethodPost, api.PathLogins+"/"+url.PathEscape(service)+"/finish", f)
}

// RemoveSecret forgets one.
func (c *Client) RemoveSecret(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, c, http.MethodPost, api.PathSecrets+"/"+url.PathEscape(name)+"/remove", nil)
	return err
}
