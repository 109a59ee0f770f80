package memory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"cloister/sandbox"
)

// Changed is the error for an image of which not every byte is as its sheet says.
type Changed struct{ Checkpoint, File string }

// Error names the file.
func (c *Changed) Error() string {
	return fmt.Sprintf("the memory of checkpoint %s was changed: its file %s is not as it was kept", c.Checkpoint, c.File)
}

// compare compares an image with its sheet, beside whatever its caller does, and gives what waits
// for that.
func compare(i *sandbox.Image, s Sheet) func() error {
	done := make(chan error, 1)
	go func() {
		now, err := looked(i.Files)
		for n, name := range s.names() {
			if err == nil && s.Files[n] != now[n] {
				err = &Changed{s.Checkpoint, name}
			}
		}
		done <- err
	}()
	return sync.OnceValue(func() error { return <-done })
}

// Passed is the image that the shim of a child was started with: the files that who started it
// compared with their sheet, once for all children, and the way on which it says so.
type Passed struct {
	files []*os.File
	said  func() (string, error)
}

// Took makes of the files of a shim's order what [Brancher] passed; nil where those are none.
func Took(files []*os.File) *Passed {
	last := len(files) - 1
	if last != len(names) {
		return nil
	}
	p := &Passed{files: files[:last]}
	p.said = sync.OnceValues(func() (string, error) {
		said, err := io.ReadAll(files[last])
		return string(said), errors.Join(err, files[last].Close())
	})
	return p
}

// image is what a child goes on from: the files of the folder, or what was passed of one that is encrypted.
func (p *Passed) image(dir string, s Sheet) (*sandbox.Image, error) {
	if !s.Encrypted {
		return Open(dir, s)
	}
	if p == nil {
		return nil, fmt.Errorf("the memory of checkpoint %s is encrypted: cloister fork alone goes on from it", s.Checkpoint)
	}
	files, err := reopened(p.files)
	i := &sandbox.Image{Files: files, Shape: s.Shape}
	if err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// vouches gives what waits for the word that an image is the one that was compared: the very files, by
// the sheet with that digest. A file that lies under the same name and is another one was not.
func (p *Passed) vouches(i *sandbox.Image, s Sheet, digest string) func() error {
	return sync.OnceValue(func() error {
		said, err := p.said()
		if err != nil {
			return fmt.Errorf("read the memory: %w", err)
		}
		if len(p.files) != len(i.Files) || len(i.Files) != len(s.Files) {
			return &Changed{s.Checkpoint, sheetFile}
		}
		for n, f := range p.files {
			mine, err1 := i.Files[n].Stat()
			theirs, err2 := f.Stat()
			if err := errors.Join(err1, err2); err != nil {
				return fmt.Errorf("read the memory: %w", err)
			}
			if said != digest || !os.SameFile(mine, theirs) {
				return &Changed{s.Checkpoint, s.names()[n]}
			}
		}
		if s.Encrypted {
			return p.close()
		}
		return nil
	})
}

// close closes the files: what was decrypted is in memory as long as anyone has it open.
func (p *Passed) close() (err error) {
	for _, f := range p.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// pass gives what a child is started with: the files of an image that is being compared, and the end of a
// pipe. On it comes the digest of the sheet once they are as that says, and nothing where they are not.
// over waits until that is said.
func pass(i *sandbox.Image, s Sheet) (files []*os.File, over func() error, err error) {
	digest, err := s.Digest()
	if err != nil {
		return nil, nil, err
	}
	said, word, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pass the memory on: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer word.Close()
		if i.Known() == nil {
			_, _ = word.WriteString(digest) // a child that is gone has said why
		}
	}()
	return append(slices.Clip(i.Files), said), func() error {
		err := said.Close()
		<-done
		return err
	}, nil
}
