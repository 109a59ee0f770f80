package watch

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A look at a file is charged by its size: what a session has read for it, of large files too, comes at a pace.
func TestLooksArePaced(t *testing.T) {
	const looks, size = 200, 16 << 20
	file := sparse(t, size)
	synctest.Test(t, func(t *testing.T) {
		a, began := &asking{}, time.Now()
		for range looks {
			if _, err := a.look(t.Context(), file, size, unread); err != nil {
				t.Fatal(err)
			}
		}
		if took, least := time.Since(began), (looks*size/perLook-atOnce)*pace; took < least {
			t.Errorf("%d looks at %d bytes took %v, less than %v", looks, size, took, least)
		}
		// One that is gone is waited for no longer.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.look(ctx, file, size, unread); !errors.Is(err, context.Canceled) {
			t.Errorf("of a caller that is gone: %v", err)
		}
	})
}

// What grew while it was read is charged too, and what is too large is not read at all.
func TestLooksAtWhatGrows(t *testing.T) {
	file, large := sparse(t, 0), sparse(t, 100)
	synctest.Test(t, func(t *testing.T) {
		a, began := &asking{}, time.Now()
		grown := func(f *os.File) (string, error) {
			_, err := f.Seek(2*atOnce*perLook, io.SeekStart)
			return "", err
		}
		if _, err := a.look(t.Context(), file, 1, grown); err != nil {
			t.Fatal(err)
		}
		if err := a.wait(t.Context(), 1); err != nil || time.Since(began) < atOnce*pace {
			t.Errorf("the next came after %v, %v", time.Since(began), err)
		}
		read := func(*os.File) (string, error) {
			t.Error("what is too large was read")
			return "", nil
		}
		if _, err := a.look(t.Context(), large, 99, read); err == nil {
			t.Error("what is too large has a digest")
		}
	})
}

func unread(*os.File) (string, error) { return "", nil }

func sparse(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
