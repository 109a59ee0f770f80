// Package registry is the guardian's list of sessions, each with its state.
//
// The promise: a session moves only along the rows of one table; live
// sessions have different names; what ended is remembered, bounded, over
// restarts of the guardian; a session that a crash left is either re-adopted
// by its own shim or reported as lost, never forgotten.
//
// The registry does not decide whether a session may be, does not touch
// processes, and does not write the audit: the guardian does. Its state file
// is for `list -a`, no right follows from it.
//
// Most readers want [OpenRegistry].
package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cloister/api"
)

const (
	// remembered bounds the sessions that ended.
	remembered = 200
	// saveWithin is how long a change may wait for the state file. The file
	// costs an fsync(2), which holds up whatever else is done on the disk, the
	// start of the next session too; living sessions are written down apart
	// from it at once, and the record that counts is the audit.
	saveWithin = 500 * time.Millisecond
	// maxState bounds the state file in bytes: 200 sessions of 16 KiB.
	maxState = 4 << 20
	// maxCommand bounds what is remembered of a command line, in words and in
	// bytes of each.
	maxCommand, maxWord = 32, 256
)

// ErrNotFound says that no session has that name or ID.
var ErrNotFound = errors.New("no such session")

// NameTaken is the error for the name of another live session.
type NameTaken struct{ Name string }

// Error names it.
func (n *NameTaken) Error() string {
	return fmt.Sprintf("session name %q: a live session has it", n.Name)
}

// Running is the error for a session that lives already.
type Running struct{ Name string }

// Error names it.
func (r *Running) Error() string {
	return fmt.Sprintf("session %q: it runs already", r.Name)
}

// Options of a Registry.
type Options struct {
	Now func() time.Time // time.Now when nil
}

// Registry knows every session. It is safe for use by several goroutines.
//
// On disk a live session is a small file of its own, there before the session
// is granted, so that a kill -9 at any time forgets none; the list of all is
// saved beside, durably and soon.
type Registry struct {
	path string
	live string // folder of the live sessions' files
	now  func() time.Time

	mu       sync.Mutex
	sessions map[string]*entry // by ID
	names    map[string]string // of live sessions, to their ID
	saveErr  error

	dirty chan struct{}
	done  chan struct{}
	saved chan struct{}
	close sync.Once
}

type entry struct {
	info api.SessionInfo
	exec json.RawMessage
	// expected: the last guardian had it live; its shim may come yet.
	expected bool
}

// OpenRegistry reads the state file at path and proves that it can be
// written. Sessions that were live when it was written are expected back
// until [Registry.Settle]. A file that is no state file is moved aside, with
// a note.
func OpenRegistry(path string, o Options) (r *Registry, note string, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	r = &Registry{
		path:     path,
		live:     liveDir(path),
		now:      o.Now,
		sessions: map[string]*entry{},
		names:    map[string]string{},
		dirty:    make(chan struct{}, 1),
		done:     make(chan struct{}),
		saved:    make(chan struct{}),
	}
	if err := os.MkdirAll(r.live, 0o700); err != nil {
		return nil, "", fmt.Errorf("open session registry: %w", err)
	}
	if note, err = r.load(); err != nil {
		return nil, "", fmt.Errorf("open session registry: %w", err)
	}
	if err := r.loadLive(); err != nil {
		return nil, "", fmt.Errorf("open session registry: %w", err)
	}
	if err := r.save(); err != nil {
		return nil, "", fmt.Errorf("open session registry: %w", err)
	}
	go r.saver()
	return r, note, nil
}

// expect enters what an earlier guardian knew. A live session's name stays
// its own until Settle gives it up.
func (r *Registry) expect(info api.SessionInfo) {
	e := &entry{info: info, expected: live(info.State)}
	if e.expected {
		r.names[info.Name] = info.ID
	}
	r.sessions[info.ID] = e
}

// Create enters a new session. The registry fills in ID, Name where it is
// empty, State and CreatedAt.
func (r *Registry) Create(info api.SessionInfo) (api.SessionInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.running(info); other != "" {
		return api.SessionInfo{}, &Running{Name: other}
	}
	info.ID = newID()
	for info.Name == "" {
		for _, name := range names(info) {
			if r.names[name] == "" && validName(name) {
				info.Name = name
				break
			}
		}
	}
	info.CreatedAt = r.now().UTC().Round(0)
	return r.enter(&entry{}, info, Granted)
}

// running is the name of the live session that a request for one with a
// terminal means: of the same agent in the same folder, and of the name if one
// was given. Of several it is the oldest.
func (r *Registry) running(want api.SessionInfo) string {
	if !want.Terminal {
		return ""
	}
	var found *entry
	for _, id := range r.names {
		e := r.sessions[id]
		same := e.info.Terminal && e.info.Path == want.Path && e.info.Agent == want.Agent
		if same && (want.Name == "" || want.Name == e.info.Name) &&
			(found == nil || e.info.CreatedAt.Before(found.info.CreatedAt)) {
			found = e
		}
	}
	if found == nil {
		return ""
	}
	return found.info.Name
}

// Adopt enters a session that an earlier guardian granted and whose shim
// re-offers it; info carries its ID, Name and CreatedAt.
func (r *Registry) Adopt(info api.SessionInfo, exec json.RawMessage) (api.SessionInfo, error) {
	if err := CheckID(info.ID); err != nil {
		return api.SessionInfo{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &entry{exec: exec}
	if old := r.sessions[info.ID]; old != nil {
		switch {
		case old.expected: // the state file's memory of it
		case old.info.State == api.StateFailed: // whoever offers it lives, whatever was thought
			e.info.State = old.info.State
		case live(old.info.State):
			return api.SessionInfo{}, &NameTaken{Name: old.info.Name}
		default:
			return api.SessionInfo{}, &Impossible{From: old.info.State, Event: Adopted}
		}
	}
	return r.enter(e, info, Adopted)
}

// enter makes the first step of e and gives it its name.
func (r *Registry) enter(e *entry, info api.SessionInfo, event Event) (api.SessionInfo, error) {
	if err := CheckName(info.Name); err != nil {
		return api.SessionInfo{}, err
	}
	if holder := r.names[info.Name]; holder != "" && holder != info.ID {
		return api.SessionInfo{}, &NameTaken{Name: info.Name}
	}
	to, err := step(e.info.State, event)
	if err != nil {
		return api.SessionInfo{}, err
	}
	info.State, info.StoppedAt, info.ExitStatus, info.Reason = to, time.Time{}, nil, ""
	info.Command = Short(info.Command)
	if err := r.writeLive(info); err != nil {
		return api.SessionInfo{}, err
	}
	e.info = info
	r.sessions[info.ID] = e
	r.names[info.Name] = info.ID
	r.change()
	return info, nil
}

// Short bounds a command line, or another list of words, for the list of sessions.
func Short(command []string) []string {
	if len(command) > maxCommand {
		command = append(slices.Clone(command[:maxCommand]), "…")
	}
	command = slices.Clone(command)
	for i, word := range command {
		if len(word) > maxWord {
			command[i] = word[:maxWord] + "…"
		}
	}
	return command
}

// Apply moves one session along the table, after change (may be nil) has
// filled in what came with the event. On an error nothing changes.
func (r *Registry) Apply(id string, event Event, change func(*api.SessionInfo)) (api.SessionInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.sessions[id]
	if e == nil || e.expected {
		return api.SessionInfo{}, fmt.Errorf("session %s: %w", id, ErrNotFound)
	}
	to, err := step(e.info.State, event)
	if err != nil {
		return e.info, err
	}
	e.info.State = to
	if change != nil {
		change(&e.info)
	}
	if !live(to) {
		e.info.StoppedAt = r.now().UTC().Round(0)
		r.retire(e)
	}
	r.change()
	return e.info, nil
}

// Note changes what is known of a session without moving it.
func (r *Registry) Note(id string, change func(*api.SessionInfo)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.sessions[id]; e != nil {
		change(&e.info)
		r.change()
	}
}

// Describe keeps what exec needs to enter the session; it is not saved.
func (r *Registry) Describe(id string, exec json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.sessions[id]; e != nil {
		e.exec = exec
	}
}

// retire frees the name, and forgets the oldest that ended beyond the bound.
func (r *Registry) retire(e *entry) {
	if r.names[e.info.Name] == e.info.ID {
		delete(r.names, e.info.Name)
	}
	if err := os.Remove(filepath.Join(r.live, e.info.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// Reported as lost once more by the next guardian, unless the list was
		// saved: a wrong word, no harm.
		r.saveErr = err
	}
	ended := make([]*entry, 0, remembered+1)
	for _, one := range r.sessions {
		if !live(one.info.State) {
			ended = append(ended, one)
		}
	}
	if len(ended) <= remembered {
		return
	}
	slices.SortFunc(ended, func(a, b *entry) int { return a.info.StoppedAt.Compare(b.info.StoppedAt) })
	for _, old := range ended[:len(ended)-remembered] {
		delete(r.sessions, old.info.ID)
	}
}

// Find returns the session with that name or ID: a live one before those that
// ended, the newest of those. Eight digits of an ID are enough when only one
// session begins so.
func (r *Registry) Find(nameOrID string) (api.ExecInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.find(nameOrID); e != nil {
		return api.ExecInfo{SessionInfo: e.info, Exec: e.exec}, nil
	}
	return api.ExecInfo{}, fmt.Errorf("session %q: %w", nameOrID, ErrNotFound)
}

func (r *Registry) find(word string) *entry {
	if id := r.names[word]; id != "" {
		return r.sessions[id]
	}
	if e := r.sessions[word]; e != nil {
		return e
	}
	var newest, prefixed *entry
	several := false
	for id, e := range r.sessions {
		if e.info.Name == word && (newest == nil || e.info.CreatedAt.After(newest.info.CreatedAt)) {
			newest = e
		}
		if len(word) >= 8 && len(id) > len(word) && id[:len(word)] == word {
			several = several || prefixed != nil
			prefixed = e
		}
	}
	if newest == nil && !several {
		return prefixed
	}
	return newest
}

// List returns the live sessions, or all that are remembered, oldest first.
func (r *Registry) List(all bool) []api.SessionInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]api.SessionInfo, 0, len(r.sessions))
	for _, e := range r.sessions {
		if all || live(e.info.State) {
			list = append(list, e.info)
		}
	}
	slices.SortFunc(list, func(a, b api.SessionInfo) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Live counts the sessions that have a shim, or may have one: while it is not
// zero the guardian stays.
func (r *Registry) Live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.names)
}

// Settle ends the time of re-adoption: sessions of the last guardian whose
// shim did not come are failed from now on, and returned. Then sweep, if not
// nil, removes what dead sessions left on the host; it is given the IDs that
// live and must look for itself whether the owner of anything else is dead.
func (r *Registry) Settle(ctx context.Context,
	sweep func(ctx context.Context, live []string) error) ([]api.SessionInfo, error) {
	lost, alive := r.giveUp()
	if sweep == nil {
		return lost, nil
	}
	if err := sweep(ctx, alive); err != nil {
		return lost, fmt.Errorf("sweep: %w", err)
	}
	return lost, nil
}

func (r *Registry) giveUp() (lost []api.SessionInfo, alive []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, e := range r.sessions {
		switch {
		case e.expected:
			e.expected = false
			e.info.State, e.info.StoppedAt = api.StateFailed, r.now().UTC().Round(0)
			e.info.Reason = "its shim did not come back after the guardian was restarted"
			lost = append(lost, e.info)
			r.retire(e)
		case live(e.info.State):
			alive = append(alive, id)
		}
	}
	if len(lost) > 0 {
		r.change()
	}
	slices.SortFunc(lost, func(a, b api.SessionInfo) int { return a.CreatedAt.Compare(b.CreatedAt) })
	slices.Sort(alive)
	return lost, alive
}

// Err is why the last save failed, nil when it did not.
func (r *Registry) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saveErr
}

// Close saves a last time. Live sessions stay written as live: the next
// guardian expects them.
func (r *Registry) Close() error {
	var err error
	r.close.Do(func() {
		close(r.done)
		<-r.saved
		err = r.save()
	})
	return err
}
