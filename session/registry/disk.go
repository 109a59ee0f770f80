package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cloister/api"
	"cloister/internal/durable"
	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
)

// file is the state file.
type file struct {
	Version  int               `json:"version"`
	Sessions []api.SessionInfo `json:"sessions"`
}

// Left reports whether the registry at path was left with live sessions in it.
func Left(path string) bool {
	files, err := os.ReadDir(liveDir(path))
	return err == nil && len(files) > 0
}

func liveDir(path string) string { return filepath.Join(filepath.Dir(path), "live") }

func (r *Registry) load() (note string, err error) {
	f, err := ownfile.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return "", err
	}
	state, err := parse(text)
	if err != nil {
		aside := r.path + ".bad"
		if err := os.Rename(r.path, aside); err != nil {
			return "", err
		}
		return fmt.Sprintf("the list of earlier sessions could not be read (%v); it was moved to %s", err, aside), nil
	}
	for _, info := range state.Sessions {
		r.expect(info)
	}
	return "", nil
}

// loadLive adds the sessions that were granted after the last save. A file
// that says nothing sound is removed: no session was granted before its file
// was whole. What has none any more ended after the last save: it is not waited
// for, or a start would rejoin it and find no one.
func (r *Registry) loadLive() error {
	files, err := os.ReadDir(r.live)
	if err != nil {
		return err
	}
	for id, e := range r.sessions {
		if e.expected && !slices.ContainsFunc(files, func(f fs.DirEntry) bool { return f.Name() == id }) {
			e.expected = false
			if r.names[e.info.Name] == id {
				delete(r.names, e.info.Name)
			}
			e.info.State, e.info.StoppedAt = api.StateFailed, r.now().UTC().Round(0)
			e.info.Reason = "it ended just before its guardian did; how is in the record: cloister audit tail --session " +
				e.info.Name
		}
	}
	for _, f := range files {
		path := filepath.Join(r.live, f.Name())
		info, err := readLive(path)
		known := r.sessions[info.ID]
		switch {
		case err != nil || f.Name() != info.ID || known != nil && !known.expected:
			if err := os.Remove(path); err != nil {
				return err
			}
		case known == nil:
			r.expect(info)
		default:
			r.names[info.Name] = info.ID // one that ended may have had it in the list
		}
	}
	return nil
}

func readLive(path string) (api.SessionInfo, error) {
	text, err := ownfile.Read(path, maxState)
	if err != nil {
		return api.SessionInfo{}, err
	}
	state, err := parse(text)
	if err != nil {
		return api.SessionInfo{}, err
	}
	if len(state.Sessions) != 1 || !live(state.Sessions[0].State) {
		return api.SessionInfo{}, errors.New("not one live session")
	}
	return state.Sessions[0], nil
}

// writeLive makes the file of a session that is about to be granted.
func (r *Registry) writeLive(info api.SessionInfo) error {
	text, err := exactjson.Marshal(file{Version: 1, Sessions: []api.SessionInfo{info}})
	if err == nil {
		err = os.WriteFile(filepath.Join(r.live, info.ID), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("note session: %w", err)
	}
	return nil
}

// parse reads a state file; every name and ID in it is checked, since it may
// be anyone's text.
func parse(text []byte) (file, error) {
	var state file
	if len(text) > maxState {
		return file{}, fmt.Errorf("longer than %d bytes", maxState)
	}
	if err := exactjson.Unmarshal(text, &state); err != nil {
		return file{}, err
	}
	if state.Version != 1 {
		return file{}, fmt.Errorf("version %d, want 1", state.Version)
	}
	for _, s := range state.Sessions {
		if err := errors.Join(CheckName(s.Name), CheckID(s.ID)); err != nil {
			return file{}, err
		}
		switch s.State {
		case api.StateStarting, api.StateRunning, api.StateStopped, api.StateFailed:
		default:
			return file{}, fmt.Errorf("session %s: state %q", s.ID, s.State)
		}
	}
	return state, nil
}

// change asks for a save; r.mu is held.
func (r *Registry) change() {
	select {
	case r.dirty <- struct{}{}:
	default:
	}
}

// saver writes the state file, at most once in saveWithin.
func (r *Registry) saver() {
	defer close(r.saved)
	for {
		select {
		case <-r.done:
			return
		case <-r.dirty:
		}
		timer := time.NewTimer(saveWithin)
		select {
		case <-r.done:
			timer.Stop()
			return // Close saves
		case <-timer.C:
		}
		_ = r.save() // kept for Err
	}
}

func (r *Registry) save() error {
	state := file{Version: 1, Sessions: r.List(true)}
	text, err := exactjson.Marshal(state)
	if err == nil {
		err = durable.WriteFile(r.path, append(text, '\n'), 0o600)
	}
	r.mu.Lock()
	r.saveErr = err
	r.mu.Unlock()
	return err
}
