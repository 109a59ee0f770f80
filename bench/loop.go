package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

const (
	// loopWord makes this program the minimal loop.
	loopWord = "loop"
	// leastLoop is its name among the contenders.
	leastLoop = "minimal Go loop"
)

// least starts that loop before a server, and gives where it listens.
func (w *world) least(ctx context.Context, p *pki, port int) (string, error) {
	to, err := freePort()
	if err != nil {
		return "", err
	}
	at := fmt.Sprintf("127.0.0.1:%d", to)
	if _, err := w.daemon(ctx, filepath.Join(w.bin, "bench"), loopWord, at, fmt.Sprintf("127.0.0.1:%d", port), filepath.Join(w.dir, "server.pem"), p.caFile); err != nil {
		return "", err
	}
	if !answers(ctx, at) {
		return "", errors.New("the minimal loop does not listen")
	}
	return at, nil
}
