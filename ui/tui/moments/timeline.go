package moments

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/api"
)

// A space is a kept workspace, or a live session of another kind.
type space struct {
	api.Workspace
	kept bool
	kind string // of a session that keeps no moments: live, scratch, none
}

// spacesOf are the kept workspaces, then what else runs.
func spacesOf(list []api.Workspace, sessions []api.SessionInfo) (out []space) {
	for _, w := range list {
		out = append(out, space{Workspace: w, kept: true, kind: "overlay"})
	}
	for _, s := range sessions {
		if slices.ContainsFunc(out, func(o space) bool { return o.Name == s.Name }) {
			continue
		}
		out = append(out, space{Workspace: api.Workspace{Name: s.Name, Project: s.Project, Agent: s.Agent, Running: true},
			kind: s.Workspace})
	}
	return out
}

// says is what applies to a cloister of which no moments are kept.
func (s *space) says() string {
	switch s.kind {
	case "overlay":
		return s.Name + " has written nothing yet that is kept"
	case "scratch":
		return s.Name + " is scratch: what it writes is gone when it ends, and no moments are kept"
	case "none":
		return s.Name + " has no project: nothing of it is kept"
	case "live":
		return s.Name + " is live: what it writes is in the project at once; git and cloister review show that. " +
			"Moments are kept of --workspace overlay"
	}
	return s.Name + " is " + s.kind + ": no moments of it are kept here"
}

// state is how it stands, in a word or two.
func (s *space) state() string {
	switch {
	case s.Problem != "":
		return "cannot be read"
	case s.Busy:
		return "busy"
	case s.Running:
		return "running"
	}
	return "stopped"
}

// A moment is one line of a timeline.
type moment struct {
	key        string
	at         time.Time
	checkpoint *api.Checkpoint
	event      *api.Record
	times      int // of one refusal, one after the other
}

// keyNow is the key of the moment that is now.
const keyNow = "now"

// eventWords are the recorded acts that make a moment, and how they are called.
var eventWords = map[string]string{
	"session.start": "a session began", "session.stop": "a session ended", "approval.request": "asked",
	"approval.decision": "answered", "file.autorun_changed": "changed what the host runs", "file.review": "reviewed",
	"state.restore": "restored", "state.fork": "forked", "state.apply": "applied to the project",
	"state.undo": "taken back out of the project",
}

// momentsOf are now, the checkpoints and what was recorded, the newest first. Refusals of the
// same, one after the other, are one.
func momentsOf(w api.Workspace, records []api.Record) []moment {
	var all []moment
	for i := range w.Checkpoints {
		c := &w.Checkpoints[i]
		all = append(all, moment{key: c.ID, at: c.Time, checkpoint: c})
	}
	for i := range records {
		e := &records[i]
		if Tells(*e) {
			all = append(all, moment{key: "e" + strconv.FormatUint(e.Seq, 10), at: e.Time, event: e, times: 1})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int {
		if c := b.at.Compare(a.at); c != 0 {
			return c
		}
		return strings.Compare(b.key, a.key)
	})
	out := []moment{{key: keyNow}}
	for _, m := range all {
		if last := &out[len(out)-1]; last.sameRefusal(m) {
			last.times++
			continue
		}
		out = append(out, m)
	}
	return out
}

// Tells reports whether a record makes a moment.
func Tells(r api.Record) bool { return eventWords[r.Kind] != "" || r.Verdict == "deny" }

func (m *moment) sameRefusal(o moment) bool {
	return m.event != nil && o.event != nil && m.event.Verdict == "deny" && o.event.Verdict == "deny" &&
		m.event.Kind == o.event.Kind && m.event.Resource == o.event.Resource
}

// of reports whether it is an event of a kind that begins so.
func (m *moment) of(kind string) bool { return m.event != nil && strings.HasPrefix(m.event.Kind, kind) }

// at is the place of the moment that is chosen.
func (m *Model) at() int {
	return max(0, slices.IndexFunc(m.moments, func(x moment) bool { return x.key == m.chosen }))
}

// standing is the checkpoint whose files the chosen moment has: its own, or the last before
// it. Now has none.
func (m *Model) standing() *api.Checkpoint {
	at := m.at()
	if at >= len(m.moments) || m.moments[at].key == keyNow {
		return nil
	}
	for _, x := range m.moments[at:] {
		if x.checkpoint != nil {
			return x.checkpoint
		}
	}
	return nil
}

// before is the checkpoint before that one.
func (m *Model) before() *api.Checkpoint {
	past := m.standing() == nil
	for _, x := range m.moments[min(m.at(), len(m.moments)):] {
		switch {
		case x.checkpoint == nil:
		case past:
			return x.checkpoint
		default:
			past = true
		}
	}
	return nil
}

// row is a moment on one line.
func (m *Model) row(x moment, s *space, now time.Time) string {
	switch {
	case x.key == keyNow:
		return "now       " + s.state()
	case x.checkpoint != nil:
		c := x.checkpoint
		text := c.Message
		if turn, ok := strings.CutPrefix(text, "before a turn: "); ok && c.Auto {
			text = "before the turn: " + turn
		} else if text == "" {
			text = "checkpoint"
		}
		mark := ""
		if c.Auto {
			mark = "  (automatic)"
		}
		if c.ID == s.Head {
			mark += "  (goes on from here)"
		}
		// What it is said to be comes last: of one made by itself, a payload says it.
		return fmt.Sprintf("%s  * %s  %s%s  %s", clock(x.at, now), c.ID, size(c.Bytes), mark, text)
	}
	e := x.event
	word := eventWords[e.Kind]
	if word == "" {
		word = e.Kind
	}
	if e.Verdict != "" && (e.Verdict != "allow" || eventWords[e.Kind] == "") {
		word += " " + e.Verdict
	}
	if e.Resource != "" && !x.of("session.") {
		word += " " + e.Resource
	}
	if x.times > 1 {
		word += fmt.Sprintf(" (%d times)", x.times)
	}
	return clock(x.at, now) + "    " + word
}

// size is how many bytes, for a person.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
