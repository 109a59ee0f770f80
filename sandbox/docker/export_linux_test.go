package docker

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// Short is for tests what short is.
func Short(id string) string { return short(id) }

// Patience is a driver that waits for each answer of its engine so long.
func Patience(o Options, within time.Duration) *Driver { return &Driver{o, within} }

// Serve listens where an engine would.
func Serve(t *testing.T, h http.Handler) string { t.Helper(); return serve(t, h) }

// Instance is for tests the mark of a driver's containers.
func Instance(d *Driver) string { return d.instance() }

// Remove is for tests the end of a container.
func Remove(d *Driver, id string) error {
	a, err := d.connect(context.Background())
	if err != nil {
		return err
	}
	defer a.Close()
	return a.remove(context.Background(), id)
}
