package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"cloister/api"
)

// EditorUse records what an agent wanted of its editor, or got of it. An error means that
// it is not recorded, and must not be done.
func (c *Client) EditorUse(ctx context.Context, session string, of api.EditorUse) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, api.PathSessions+"/"+url.PathEscape(session)+"/editor", of)
	return err
}

// AskFile asks a person about a file that is held closed, and waits for the answer: without an error
// it may be handed in.
func (c *Client) AskFile(ctx context.Context, session string, q api.FileQuestion) error {
	a, err := call[api.FileAnswer](ctx, c, http.MethodPost, api.PathSessions+"/"+url.PathEscape(session)+"/file", q)
	if err == nil && !a.Allow {
		err = errors.New(a.Reason)
	}
	return err
}

// Files records what a command that joined a session did with files and programs.
func (c *Client) Files(ctx context.Context, session string, list []api.FileEvent) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, api.PathSessions+"/"+url.PathEscape(session)+"/files", list)
	return err
}
