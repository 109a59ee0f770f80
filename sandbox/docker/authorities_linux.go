package docker

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"cloister/sandbox/docker/definition"
	"cloister/sandbox/docker/engine"
)

// authorities makes an image of the authorities alone, from which the steps of a build
// with files copy them. It gives what COPY names, and what removes the image.
func (a *api) authorities(ctx context.Context, text []byte) (place string, forget func() error, err error) {
	id, err := a.build(ctx, Build{
		Text: []byte("FROM scratch\nCOPY " + definition.AuthoritiesFile + " /\n"), Authorities: text,
		Image: authoritiesImage, Output: io.Discard,
	}, "")
	if err != nil {
		return "", nil, err
	}
	return "--from=" + id + " /" + definition.AuthoritiesFile, func() error {
		err := a.call(context.WithoutCancel(ctx), http.MethodDelete, "/images/"+id+"?force=1", nil, nil)
		if err != nil && !engine.IsStatus(err, http.StatusNotFound) {
			return fmt.Errorf("remove the image of the build's authorities: %w", err)
		}
		return nil
	}, nil
}

// authoritiesImage is what such an image is called in its label.
const authoritiesImage = "cloister-authorities"
