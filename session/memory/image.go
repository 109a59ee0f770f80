// Package memory is the memory of a cloister as files: what a checkpoint keeps of it.
//
// The promise: an image goes on only as it was described, every byte of it; its folder and
// files are its owner's alone. What is said of it, its sheet, has a digest, which a guardian
// seals: another guardian's is none of this package's to tell.
//
// The moment is that of the checkpoint of the files. A memory goes on only in a session that its
// guardian was shown the seal by, and where generators of random numbers in it repeat, only with
// a person's word.
//
// It reads no memory and builds nothing (sandbox.MemoryKeeper does).
//
// Most readers want [Saver] and [Open].
package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"cloister/api"
	"cloister/internal/durable"
	"cloister/internal/exactjson"
	"cloister/sandbox"
)

// version is of the sheet.
const version = 1

const sheetFile = "sheet.json"

// names are the files of an image in the clear, in the order of sandbox.Image.
var names = [sandbox.ImageFiles]string{"state", "index", "pages"}

// encryptedNames are those of an image that is encrypted, each in the format of age.
var encryptedNames = [sandbox.ImageFiles]string{"state.age", "index.age", "pages.age"}

// A File is one of the image's, as it was when the memory was kept.
type File struct {
	Size   int64  `json:"size"`
	Digest string `json:"sha256"`
}

// A Sheet says what is known of an image.
type Sheet struct {
	Version    int               `json:"version"`
	Cloister   string            `json:"cloister"`
	Session    string            `json:"session"` // its id
	Checkpoint string            `json:"checkpoint"`
	Isolation  string            `json:"isolation"`
	Shape      string            `json:"shape"` // for the driver
	Order      json.RawMessage   `json:"order"` // by which the cloister was started
	Programs   []sandbox.Program `json:"programs"`
	Files      []File            `json:"files"`
	// Encrypted says that the files are encrypted, by a key that is in the guardian's seal.
	Encrypted bool `json:"encrypted,omitempty"`
	// Seal is the guardian's, of the rest.
	Seal []byte `json:"seal,omitempty"`
}

// names are those of the files in its folder.
func (s Sheet) names() []string {
	if s.Encrypted {
		return encryptedNames[:]
	}
	return names[:]
}

// Digest covers all of a sheet but its seal, and by it the files.
func (s Sheet) Digest() (string, error) {
	s.Seal = nil
	text, err := exactjson.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("describe the memory: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Bytes are those of all files.
func (s Sheet) Bytes() (n int64) {
	for _, f := range s.Files {
		n += f.Size
	}
	return n
}

// Claim is what a guardian is shown before the memory is used.
func (s Sheet) Claim() (*api.Memory, error) {
	digest, err := s.Digest()
	return &api.Memory{Session: s.Session, Checkpoint: s.Checkpoint, Digest: digest, Seal: s.Seal}, err
}

// Describe completes a sheet by an image that was written.
func (o *Output) Describe(s *Sheet) error {
	s.Version, s.Shape, s.Programs, s.Encrypted = version, o.Shape, o.Programs, o.Key != ""
	err := o.over()
	if err == nil {
		s.Files, err = looked(o.files)
	}
	return err
}

// Write puts a sheet beside the files.
func Write(dir string, s Sheet) error {
	text, err := exactjson.Marshal(s)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, sheetFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("describe the memory: %w", err)
	}
	return nil
}

// Read gives the sheet of an image, which is only what the folder says until a guardian has opened its seal.
func Read(dir string) (Sheet, error) {
	var s Sheet
	text, err := os.ReadFile(filepath.Join(dir, sheetFile))
	if err == nil {
		err = exactjson.Unmarshal(text, &s)
	}
	if err == nil && (s.Version != version || len(s.Files) != len(s.names())) {
		err = fmt.Errorf("version %d with %d files", s.Version, len(s.Files))
	}
	if err != nil {
		return s, fmt.Errorf("read what is known of the memory: %w", err)
	}
	return s, nil
}

// Open opens the files of an image. What they hold is not looked at: see [sandbox.Image.Known].
func Open(dir string, s Sheet) (*sandbox.Image, error) {
	i := &sandbox.Image{Shape: s.Shape}
	for _, name := range s.names() {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the memory: %w", err), i.Close())
		}
		i.Files = append(i.Files, f)
	}
	return i, nil
}

// looked measures all files at once. It moves no offset.
func looked(files []*os.File) ([]File, error) {
	out := make([]File, len(files))
	var group errgroup.Group
	for n, f := range files {
		group.Go(func() error {
			fi, err := f.Stat()
			if err != nil {
				return fmt.Errorf("read the memory: %w", err)
			}
			h := sha256.New()
			if _, err := io.Copy(h, io.NewSectionReader(f, 0, fi.Size())); err != nil {
				return fmt.Errorf("read the memory: %w", err)
			}
			out[n] = File{fi.Size(), hex.EncodeToString(h.Sum(nil))}
			return nil
		})
	}
	return out, group.Wait()
}
