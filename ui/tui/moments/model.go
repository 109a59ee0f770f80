// Package moments is the panel's page of time: the moments of kept workspaces, what each has
// changed, and what a person makes of one, by keys.
//
// The promise: what changes something is done after a second key alone, for what was on the
// screen; a file that programs of the host run or obey needs a key of its own, once its name
// was on the screen. Whatever a payload named a file, or wrote into one, it stands behind a
// bar or on a line of its own, and the line of a question is the page's.
//
// It does nothing to a workspace itself and keeps no more than one look: the guardian does
// what is asked, as it does for the window.
//
// Most readers want [Model].
package moments

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/ui/tui/pen"
)

// A Guardian is what the page asks of the guardian.
type Guardian struct {
	Spaces  func() ([]api.Workspace, []api.SessionInfo, error) // kept workspaces, live sessions
	Records func(name string) ([]api.Record, error)            // the newest first
	Diff    func(name, at, since, path string) (api.WorkspaceDiff, error)
	Act     func(name, verb string, in api.WorkspaceAct) (api.WorkspaceActed, error)
}

// A Do is a call that is made aside; what it gives is done to the page then.
type Do func() func()

// level is how far the page has been gone into.
type level int

const (
	ofSpaces  level = iota // the list of cloisters
	ofMoments              // the moments of one
	ofChanges              // what changed, path by path
	ofText                 // the text of one path
	ofSides                // which ones to compare
	ofTable                // what they came to
)

// Model is the page as data.
type Model struct {
	guardian Guardian
	pen      pen.Pen
	h        int

	level  level
	help   bool
	helpAt int
	note   string
	ask    *question

	list    []space
	name    string // of the workspace that is selected
	moments []moment
	chosen  string // key of a moment
	since   bool   // compared with the checkpoint before

	urgent, stale, loading bool
	loaded                 bool

	shown   view // what diff is of
	looking bool
	diff    *api.WorkspaceDiff
	problem string // why there is none
	path    string
	marked  map[string]bool

	read    view // what patch is of
	reading bool
	patch   string
	lines   []line // of the patch, as wide as the screen
	scroll  int

	acting string // the verb that is being done
	next   Do

	sides    map[string]bool
	compared *api.Comparison
}

// view is one look: of a workspace at a moment, since another, as things stood, and of a path.
type view struct{ name, at, since, stood, path string }

// New is a page on which nothing was looked at yet.
func New(g Guardian) *Model {
	return &Model{guardian: g, marked: map[string]bool{}, chosen: keyNow, pen: pen.Pen{Width: 80}, h: 24}
}

// Resize tells how large the page is, and for what terminal.
func (m *Model) Resize(p pen.Pen, h int) {
	if m.pen != p {
		m.pen, m.lines = p, nil
	}
	m.h = h
}

// Open begins with the workspace of that name, "" for the list.
func (m *Model) Open(name string) {
	m.urgent = true
	if name != "" {
		m.name, m.level = name, ofMoments
	}
}

// Note puts words on the line over the keys.
func (m *Model) Note(text string) { m.note = text }

// Stale says that what the page knows has changed.
func (m *Model) Stale() { m.stale = true }

// Tick is a second: what changed meanwhile is looked at, once for all of it.
func (m *Model) Tick() {
	if m.stale {
		m.stale, m.urgent = false, true
	}
}

// Typing reports whether keys are letters of a text, or the answer to a question.
func (m *Model) Typing() bool { return m.ask != nil }

// Next is the next call to be made, nil where there is none. It is asked for after each event.
func (m *Model) Next() Do {
	if do := m.next; do != nil {
		m.next = nil
		return do
	}
	if m.urgent && !m.loading {
		m.urgent, m.loading = false, true
		return m.load(m.name)
	}
	if want, ok := m.wanted(); ok && want != m.shown && !m.looking {
		m.looking = true
		return m.look(want)
	}
	if want, ok := m.wantedText(); ok && want != m.read && !m.reading {
		m.reading = true
		return m.readText(want)
	}
	return nil
}

// load fetches the list, and the record of one workspace.
func (m *Model) load(name string) Do {
	return func() func() {
		spaces, sessions, err := m.guardian.Spaces()
		var records []api.Record
		if i := slices.IndexFunc(spaces, func(s api.Workspace) bool { return s.Name == name }); i >= 0 && err == nil {
			records, err = m.guardian.Records(name)
		}
		return func() {
			m.loading = false
			if err != nil {
				m.note = words(err)
				return
			}
			m.took(spaces, sessions, name, records)
		}
	}
}

// took takes what was loaded.
func (m *Model) took(spaces []api.Workspace, sessions []api.SessionInfo, of string, records []api.Record) {
	m.list, m.loaded = spacesOf(spaces, sessions), true
	if m.problem != "" {
		m.shown = view{} // it is looked at again
	}
	s := m.space()
	if s == nil {
		if m.name != "" && m.level > ofSpaces && m.level < ofSides {
			m.note = m.name + " is not there any more"
			m.level, m.ask = ofSpaces, nil
		}
		m.pick("")
		if len(m.list) > 0 {
			m.pick(m.list[0].Name)
		}
		m.urgent = m.name != ""
		return
	}
	if !s.kept && m.level > ofSpaces {
		m.level, m.note = ofSpaces, s.says()
	}
	if of != m.name { // another was picked meanwhile
		m.urgent = true
		return
	}
	m.moments = momentsOf(s.Workspace, records)
	if !slices.ContainsFunc(m.moments, func(x moment) bool { return x.key == m.chosen }) {
		m.choose(keyNow)
	}
}

// space is the one that is selected.
func (m *Model) space() *space {
	if i := slices.IndexFunc(m.list, func(s space) bool { return s.Name == m.name }); i >= 0 {
		return &m.list[i]
	}
	return nil
}

// pick selects a workspace.
func (m *Model) pick(name string) {
	if name == m.name {
		return
	}
	m.name, m.moments, m.since = name, nil, false
	m.choose(keyNow)
	m.urgent = true
}

// choose selects a moment: what was chosen of another is not of this one.
func (m *Model) choose(key string) {
	m.chosen, m.path, m.scroll = key, "", 0
	clear(m.marked)
}

// wanted is the look that the page needs now.
func (m *Model) wanted() (view, bool) {
	s := m.space()
	if s == nil || !s.kept || m.level == ofSpaces || s.Busy || s.Problem != "" || len(m.moments) == 0 {
		return view{}, false
	}
	at := m.at()
	if m.moments[at].event != nil && m.standing() == nil {
		return view{}, false // before the first checkpoint
	}
	v := view{name: m.name, stood: m.stood(s)}
	if c := m.standing(); c != nil {
		v.at = c.ID
	}
	if c := m.before(); c != nil && m.since {
		v.since = c.ID
	}
	return v, true
}

// stood changes with everything that may change what a look gives.
func (m *Model) stood(s *space) string {
	last := ""
	for _, x := range m.moments {
		if x.event != nil && (x.of("session.") || x.of("state.")) {
			last = x.key
			break
		}
	}
	return fmt.Sprint(last, s.Running, s.Head, len(s.Applied), len(s.Checkpoints))
}

// current reports whether the diff on the screen is the one that is wanted.
func (m *Model) current() bool {
	want, ok := m.wanted()
	return ok && want == m.shown && m.diff != nil
}

func (m *Model) look(want view) Do {
	return func() func() {
		d, err := m.guardian.Diff(want.name, want.at, want.since, "")
		return func() {
			m.looking = false
			m.shown, m.diff, m.problem = want, nil, ""
			if err != nil {
				m.problem = words(err)
				return
			}
			m.diff = &d
			there := map[string]bool{}
			for _, c := range d.Changes {
				there[c.Path] = true
			}
			for p := range m.marked {
				if !there[p] {
					delete(m.marked, p)
				}
			}
			if !there[m.path] {
				m.path = ""
				if m.level == ofText {
					m.level = ofChanges
				}
			}
			if m.path == "" && len(d.Changes) > 0 {
				m.path = d.Changes[0].Path
			}
		}
	}
}

func (m *Model) wantedText() (view, bool) {
	if m.level != ofText || m.path == "" || !m.current() {
		return view{}, false
	}
	v := m.shown
	v.path = m.path
	return v, true
}

func (m *Model) readText(want view) Do {
	return func() func() {
		d, err := m.guardian.Diff(want.name, want.at, want.since, want.path)
		return func() {
			m.reading = false
			m.read, m.patch, m.lines = want, d.Patch, nil
			switch {
			case err != nil:
				m.patch = words(err)
			case d.Cut:
				m.patch += "\n(the rest is not shown: cloister diff " + want.name + ")"
			case d.Patch == "":
				m.patch = "nothing to show here: cloister diff " + want.name + " has it"
			}
		}
	}
}

// words are what an error says, with the first thing to do.
func words(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*api.Error](err); ok && len(e.Hints) > 0 {
		text += " (" + e.Hints[0] + ")"
	}
	return termsafe.Clip(text, 400)
}

// clock is a time for a row: of today the hour, else the day.
func clock(t, now time.Time) string {
	if t = t.Local(); t.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006 Jan")[5:] + t.Format(" _2  ")[:len("15:04:05")-len("Jan")]
}
