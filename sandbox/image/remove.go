package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// InUse says that a cloister runs on the image.
type InUse struct{ Name string }

func (e *InUse) Error() string { return "remove image " + e.Name + ": a cloister uses it" }

// Hints are the words of what to do.
func (e *InUse) Hints() []string { return []string{"cloister list tells which; stop it first"} }

// Remove takes a name off an image, and the image away with its last name. An
// ID takes it away whatever its names.
func (s *Store) Remove(ctx context.Context, text string) (Image, error) {
	src, err := parse(text)
	if err != nil {
		return Image{}, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	i, err := s.find(&src)
	if err != nil {
		return Image{}, err
	}
	images, err := s.List()
	if err != nil {
		return Image{}, err
	}
	if src.kind == registry && len(i.Names) > 1 && slices.Contains(i.Names, canonical(src.ref)) {
		i.Names = slices.DeleteFunc(i.Names, func(n string) bool { return n == canonical(src.ref) })
		return i, s.enter(images, i)
	}
	hold, err := os.OpenFile(s.Root(i)+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return Image{}, fmt.Errorf("remove image %s: %w", text, err)
	}
	defer hold.Close()
	// A cloister that has just ended lets go of it a moment later.
	for began := time.Now(); unix.Flock(int(hold.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; {
		if time.Since(began) > endWithin || ctx.Err() != nil {
			return Image{}, &InUse{Name: text}
		}
		<-time.After(20 * time.Millisecond)
	}
	// Off the list first: what is on it is whole.
	if err := s.save(slices.DeleteFunc(images, func(o Image) bool { return o.ID == i.ID })); err != nil {
		return Image{}, err
	}
	if err := errors.Join(os.RemoveAll(s.Root(i)), os.Remove(hold.Name())); err != nil {
		return Image{}, fmt.Errorf("remove image %s: %w", text, err)
	}
	return i, nil
}

// endWithin is how long a shim may take to end after its cloister.
const endWithin = time.Second

// Hold keeps an image from being removed until what it gives is closed.
func (s *Store) Hold(i Image) (*os.File, error) {
	f, err := os.OpenFile(s.Root(i)+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
			f.Close()
		} else if err = isFolder(s.Root(i)); err != nil {
			f.Close() // removed between the look and the hold, or a link to the host
		}
	}
	if err != nil {
		return nil, fmt.Errorf("use image %s: %w", i.Short(), err)
	}
	return f, nil
}
