package images

import (
	"errors"
	"path/filepath"

	"cloister/cmd/cloister/cli"
	"cloister/internal/xdg"
	"cloister/sandbox/docker"
	"cloister/sandbox/docker/engine"
)

// Engine is the driver of containers, of the engine that DOCKER_HOST names.
func Engine(a *cli.App) (*docker.Driver, error) {
	dirs, err := a.Dirs()
	socket, unclear := engine.SocketOf(a.Env.Get("DOCKER_HOST"))
	if err := errors.Join(err, unclear); err != nil {
		return nil, err
	}
	return docker.New(docker.Options{Socket: socket, Dir: Sockets(dirs)}), nil
}

// Sockets is the folder in which the sockets of containers lie. Its name is short, since all
// of a socket's path has 107 bytes.
func Sockets(d xdg.Dirs) string { return filepath.Join(d.Runtime, "d") }
