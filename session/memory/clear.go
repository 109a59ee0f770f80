package memory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"cloister/sandbox"
	"cloister/state/sealed"
)

// decrypted gives the image in the clear of one that is encrypted, which it closes. It is in memory
// alone, once for all children, and cannot be changed once it is known to be sound.
func decrypted(i *sandbox.Image, s Sheet, key string) (*sandbox.Image, error) {
	clear := &sandbox.Image{Shape: s.Shape}
	for range i.Files {
		f, err := memoryFile()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("decrypt the memory: %w", err), clear.Close(), i.Close())
		}
		clear.Files = append(clear.Files, f)
	}
	sound, done := compare(i, s), make(chan error, 1)
	files := clear.Files
	go func() {
		var group errgroup.Group
		for n, f := range files {
			group.Go(func() error {
				err := decrypt(f, i.Files[n], s, s.names()[n], key)
				if err == nil {
					err = unchangeable(f)
				}
				return err
			})
		}
		err := group.Wait()
		if e := sound(); err == nil {
			err = e
		}
		done <- errors.Join(err, i.Close())
	}()
	clear.Sound = sync.OnceValue(func() error { return <-done })
	return clear, nil
}

// decrypt decrypts a file of an image. age proves each piece, their order and the end, by a key that no
// other image has.
func decrypt(out io.Writer, in *os.File, s Sheet, name, key string) error {
	plain, err := sealed.Open(in, sealed.Key{Identities: strings.NewReader(key)})
	if wrong, ok := errors.AsType[*sealed.WrongKey](err); ok {
		// Its hints are of keys that a person has: this one is the guardian's.
		return fmt.Errorf("decrypt the memory of checkpoint %s: %s", s.Checkpoint, wrong.Why)
	}
	if err == nil {
		_, err = io.Copy(out, plain)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", &Changed{s.Checkpoint, name}, err)
	}
	return nil
}
