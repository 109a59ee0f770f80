package memory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"cloister/sandbox"
	"cloister/state/sealed"
)

// An Output is an image while it is written.
type Output struct {
	*sandbox.Image // what a driver writes to
	// Key opens what lies in the folder, as an identity of age; "" where that is in the clear.
	Key   string
	files []*os.File   // of the folder
	over  func() error // puts all that was written there; then the driver writes no more
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

// encrypt has the driver write to files in memory. They are encrypted to those of the folder once the cloister goes
// on: it stands still for neither.
func (o *Output) encrypt() error {
	identity, recipient, err := sealed.NewKey()
	if err != nil {
		return err
	}
	o.Key = identity
	o.over = sync.OnceValue(func() error {
		var group errgroup.Group
		for n, f := range o.Files {
			group.Go(func() error { return encryptFile(o.files[n], f, recipient) })
		}
		err := group.Wait()
		for _, f := range o.Files {
			// The sandbox may have it open for longer: what it holds counts towards no limit of the cloister.
			err = errors.Join(err, f.Truncate(0), f.Close())
		}
		o.Files = nil
		if err != nil {
			return fmt.Errorf("encrypt the memory: %w", err)
		}
		return nil
	})
	for range o.files {
		f, err := memoryFile()
		if err != nil {
			return err
		}
		o.Files = append(o.Files, f)
	}
	return nil
}

func encryptFile(to, from *os.File, recipient string) error {
	out, err := sealed.Writer(to, sealed.Key{Recipients: []string{recipient}})
	if err != nil {
		return err
	}
	var fi os.FileInfo
	if err = held(from); err == nil {
		fi, err = from.Stat()
	}
	if err == nil {
		_, err = io.Copy(out, io.NewSectionReader(from, 0, fi.Size()))
	}
	return errors.Join(err, out.Close())
}

// Close closes all files.
func (o *Output) Close() error {
	err := o.over()
	for _, f := range o.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
