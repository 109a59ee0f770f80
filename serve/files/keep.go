package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Keep packs a folder of the sandbox into a file of the host, which is whole or not there. What has more
// than most bytes is the error full.
func (p *Pool) Keep(ctx context.Context, dir, file string, most int64, full error) error {
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("keep files: %w", err)
	}
	err = p.Pack(ctx, dir, &limited{f, most, full})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// Give unpacks such a file in the sandbox.
func (p *Pool) Give(ctx context.Context, dir, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("give files: %w", err)
	}
	defer f.Close()
	return p.Unpack(ctx, dir, f)
}

// limited gives an error after so many bytes.
type limited struct {
	io.Writer
	left int64
	full error
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, l.full
	}
	return l.Writer.Write(p)
}
