package memory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"cloister/sandbox"
	"cloister/state/sealed"
)

// encryptedName is the one file of an image that is encrypted, in the format of age.
const encryptedName = "memory.age"

// An Output is an image while it is written.
type Output struct {
	*sandbox.Image // what a driver writes to
	// Key opens what lies in the folder, as an identity of age; "" where that is in the clear.
	Key   string
	files []*os.File   // of the folder
	over  func() error // waits until all that was written lies there; then the driver writes no more
}

// Create makes the empty files of an image in a folder that its caller made. Where it is encrypted,
// nothing of it comes to the disk in the clear.
func Create(dir string, encrypted bool) (*Output, error) {
	o := &Output{Image: &sandbox.Image{}, over: func() error { return nil }}
	for _, name := range (Sheet{Encrypted: encrypted}).names() {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("keep memory: %w", err), o.Close())
		}
		o.files = append(o.files, f)
	}
	if !encrypted {
		o.Files = append(o.Files, o.files...)
		return o, nil
	}
	if err := o.encrypt(); err != nil {
		return nil, errors.Join(fmt.Errorf("keep memory: %w", err), o.Close())
	}
	return o, nil
}

// encrypt has what the driver writes go through a pipe to the folder's file.
func (o *Output) encrypt() error {
	identity, recipient, err := sealed.NewKey()
	if err != nil {
		return err
	}
	out, err := sealed.Writer(o.files[0], sealed.Key{Recipients: []string{recipient}})
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	o.Key, o.Files = identity, []*os.File{w}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, r)
		done <- errors.Join(err, out.Close(), r.Close()) // without a reader the writer ends too
	}()
	o.over = sync.OnceValue(func() error {
		err := w.Close()
		o.Files = nil
		if err = errors.Join(err, <-done); err != nil {
			return fmt.Errorf("encrypt the memory: %w", err)
		}
		return nil
	})
	return nil
}

// Close closes all files.
func (o *Output) Close() error {
	err := o.over()
	for _, f := range o.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
