package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"cloister/sandbox"
	"cloister/state/sealed"
)

// decrypted gives the image in the clear of one that is encrypted, which it closes. It is in memory
// alone, once for all children, and cannot be changed once it is known to be sound.
func decrypted(i *sandbox.Image, s Sheet, key string) (*sandbox.Image, error) {
	clear, err := memoryFile()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("decrypt the memory: %w", err), i.Close())
	}
	done := make(chan error, 1)
	go func() {
		err := decrypt(clear, i.Files[0], s, key)
		if err == nil {
			err = unchangeable(clear)
		}
		done <- errors.Join(err, i.Close())
	}()
	return &sandbox.Image{Files: []*os.File{clear}, Shape: s.Shape,
		Sound: sync.OnceValue(func() error { return <-done })}, nil
}

// decrypt decrypts a file that is as its sheet says.
func decrypt(out io.Writer, in *os.File, s Sheet, key string) error {
	sum := sha256.New()
	text := io.TeeReader(in, sum)
	plain, err := sealed.Open(text, sealed.Key{Identities: strings.NewReader(key)})
	if wrong, ok := errors.AsType[*sealed.WrongKey](err); ok {
		// Its hints are of keys that a person has: this one is the guardian's.
		return fmt.Errorf("decrypt the memory of checkpoint %s: %s", s.Checkpoint, wrong.Why)
	}
	if err == nil {
		_, err = io.Copy(out, plain)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, text)
	}
	changed := &Changed{s.Checkpoint, encryptedName}
	if err != nil {
		return fmt.Errorf("%w: %w", changed, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != s.Files[0].Digest {
		return changed
	}
	return nil
}
