package files_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/serve/files"
)

// pool runs the program in this process, on real pipes and real files.
func pool(t *testing.T) *files.Pool {
	t.Helper()
	var running sync.WaitGroup
	p := &files.Pool{Start: func(context.Context) (*files.Program, error) {
		inR, inW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		outR, outW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		running.Go(func() {
			_ = files.Serve(inR, outW) // the pool closes its streams
			inR.Close()
			outW.Close()
		})
		return &files.Program{In: inW, Out: outR, Close: func() error { return errors.Join(inW.Close(), outR.Close()) }}, nil
	}}
	t.Cleanup(func() {
		p.Close()
		running.Wait()
	})
	return p
}

func TestFiles(t *testing.T) {
	p, dir, ctx := pool(t), t.TempDir(), t.Context()
	at := filepath.Join(dir, "a", "b.txt")
	text := strings.Repeat("0123456789", 100_000)
	e, err := p.Write(ctx, at, nil, strings.NewReader(text))
	if err != nil || e.Path != at || e.Size != int64(len(text)) || e.Kind != files.File {
		t.Fatalf("wrote %+v, %v", e, err)
	}
	_, r, err := p.Read(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(got) != text {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
	if _, err := p.Mkdir(ctx, filepath.Join(dir, "a", "c", "d")); err != nil {
		t.Fatal(err)
	}
	for depth, want := range map[int]int{1: 1, 2: 3, 3: 4} {
		if list, err := p.List(ctx, dir, depth); err != nil || len(list) != want {
			t.Errorf("depth %d: %v, %v", depth, list, err)
		}
	}
	if e, err := p.Move(ctx, at, filepath.Join(dir, "new", "b")); err != nil || e.Name != "b" {
		t.Errorf("moved to %+v, %v", e, err)
	}
	if err := p.Remove(ctx, filepath.Join(dir, "a")); err != nil {
		t.Error(err)
	}
	if _, err := p.Stat(ctx, filepath.Join(dir, "a")); code(err) != files.NotFound {
		t.Errorf("what was removed: %v", err)
	}
}

func code(err error) files.Code {
	if e, ok := errors.AsType[*files.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestRefusals(t *testing.T) {
	p, dir, ctx := pool(t), t.TempDir(), t.Context()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	mkfifo(t, fifo)
	read := func(path string) error {
		_, r, err := p.Read(ctx, path)
		if err == nil {
			r.Close()
		}
		return err
	}
	stat := func(path string) error { _, err := p.Stat(ctx, path); return err }
	for name, tt := range map[string]struct {
		err  error
		want files.Code
	}{
		"a relative path":         {stat("x"), files.Invalid},
		"a path with a zero byte": {stat("/\x00"), files.Invalid},
		"a path that is too long": {stat("/" + strings.Repeat("a", 5000)), files.Invalid},
		"reading a folder":        {read(dir), files.Invalid},
		"reading a pipe":          {read(fifo), files.Invalid},
		"reading what is not":     {read(filepath.Join(dir, "no")), files.NotFound},
		"a file as a folder":      {stat(filepath.Join(file, "x")), files.Invalid},
		"the root":                {p.Remove(ctx, "/"), files.Invalid},
	} {
		if code(tt.err) != tt.want {
			t.Errorf("%s: %v, want %s", name, tt.err, tt.want)
		}
	}
	if _, err := p.Write(ctx, dir, nil, strings.NewReader("x")); code(err) != files.Invalid {
		t.Errorf("writing to a folder: %v", err)
	}
	// A refused write leaves the program in step.
	if _, err := p.Stat(ctx, file); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

func TestWatch(t *testing.T) {
	p, dir := pool(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := map[files.Change]bool{}
	err := p.Watch(ctx, dir, true, true, func() error {
		return errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600),
			os.Remove(filepath.Join(dir, "f")))
	}, func(e files.Event) error {
		seen[e.Change] = true
		if e.Change == files.Removed {
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) || !seen[files.Created] || !seen[files.Written] {
		t.Errorf("saw %v, %v", seen, err)
	}
}

// TestLyingProgram has a program that answers what no honest one would.
func TestLyingProgram(t *testing.T) {
	for name, says := range map[string]string{
		"nothing":           "",
		"no JSON":           "hello\n",
		"no entry":          "{}\n",
		"half a line":       `{"entry":`,
		"an endless line":   strings.Repeat("a", 17<<20),
		"a chunk too large": `{"entry":{"name":"x"}}` + "\n\xff\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var writing sync.WaitGroup
			p := &files.Pool{Start: func(context.Context) (*files.Program, error) {
				inR, inW, err := os.Pipe()
				if err != nil {
					return nil, err
				}
				outR, outW, err := os.Pipe()
				if err != nil {
					return nil, err
				}
				writing.Go(func() {
					_, _ = io.WriteString(outW, says) // the pool may have closed its end
					outW.Close()
					inR.Close()
				})
				return &files.Program{In: inW, Out: outR, Close: func() error { return errors.Join(inW.Close(), outR.Close()) }}, nil
			}}
			_, r, err := p.Read(t.Context(), "/x")
			if err == nil {
				_, err = io.ReadAll(r)
				r.Close()
			}
			if err == nil {
				t.Error("it was believed")
			}
			p.Close()
			writing.Wait()
		})
	}
}
