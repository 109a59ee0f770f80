package cli

import (
	"cmp"
	"os"
	"path/filepath"

	"cloister/host/resolve"
	"cloister/internal/xdg"
	"cloister/sandbox/image"
)

// Images is this instance's store.
func (a *App) Images() (*image.Store, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	return a.ImageStore(dirs), nil
}

// ImageStore is that of the instance with these folders.
func (a *App) ImageStore(d xdg.Dirs) *image.Store {
	logins := filepath.Join(cmp.Or(a.Env.Get("DOCKER_CONFIG"), filepath.Join(a.Home(), ".docker")), "config.json")
	return image.Open(filepath.Join(d.Data, "images")).By(resolve.In(d.State, os.Getuid())).LoggedIn(logins)
}

// Slow tells what takes long.
func (a *App) Slow(text string) { a.Notice("cloister: %s", text) }
