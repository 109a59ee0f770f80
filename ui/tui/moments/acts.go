package moments

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cloister/api"
	"cloister/internal/termsafe"
)

// begin has the guardian do something; done says what came of it.
func (m *Model) begin(verb string, in api.WorkspaceAct, done func(api.WorkspaceActed) string) {
	name := m.name
	m.acting, m.note = verb, verb+" …"
	m.next = func() func() {
		out, err := m.guardian.Act(name, verb, in)
		return func() {
			m.acting, m.urgent = "", true
			if err != nil {
				m.note = words(err)
				return
			}
			m.note = done(out)
		}
	}
}

// goTo selects a moment, if its workspace still is the one that is selected.
func (m *Model) goTo(name, key string) {
	if m.name == name && m.level <= ofText {
		m.choose(key)
		m.level = min(m.level, ofMoments)
	}
}

// turnSince turns between the project and the checkpoint before.
func (m *Model) turnSince() {
	switch {
	case m.since:
		m.since = false
	case m.before() == nil:
		m.note = "there is no checkpoint before this one"
	default:
		m.since = true
	}
}

func (m *Model) checkpoint() {
	name := m.name
	m.prompt("Keep this moment of "+name+". What is it? (empty: nothing said)", 200, func(text string) {
		m.begin("checkpoint", api.WorkspaceAct{Message: strings.TrimSpace(text)}, func(out api.WorkspaceActed) string {
			m.goTo(name, out.Checkpoint.ID)
			return "kept: " + out.Said
		})
	})
}

func (m *Model) restore() {
	name, c, s := m.name, m.standing(), m.space()
	switch {
	case c == nil:
		m.note = "choose a checkpoint: now is what it is already"
	case s.Running:
		m.note = m.name + " is running: stop it first (cloister stop " + m.name + ")"
	default:
		m.confirm(fmt.Sprintf("Make %s what it was at %s? Files, home and conversation go back. "+
			"What is there now is kept as a checkpoint first.", m.name, c.ID), func() {
			m.begin("restore", api.WorkspaceAct{Checkpoint: c.ID}, func(out api.WorkspaceActed) string {
				m.goTo(name, keyNow)
				return "it is " + out.Said + " now; what was there before is " + out.Checkpoint.ID
			})
		})
	}
}

// maxForks bounds what the guardian makes at once.
const maxForks = 20

func (m *Model) fork() {
	at, from := "", "now"
	if c := m.standing(); c != nil {
		at, from = c.ID, c.ID
	}
	agent := m.space().Agent
	begin := func(count int, prompt string) {
		m.begin("fork", api.WorkspaceAct{Checkpoint: at, Count: count, Prompt: prompt}, func(out api.WorkspaceActed) string {
			return "made: " + out.Said
		})
	}
	m.prompt(fmt.Sprintf("Go on from %s at %s in new cloisters. How many? (1 to %d, empty: 1)", m.name, from, maxForks), 2,
		func(text string) {
			count, err := strconv.Atoi(strings.TrimSpace(text))
			if strings.TrimSpace(text) == "" {
				count, err = 1, nil
			}
			if err != nil || count < 1 || count > maxForks {
				m.note = fmt.Sprintf("want a number from 1 to %d: nothing was done", maxForks)
				return
			}
			if agent == "" { // none has worked here
				begin(count, "")
				return
			}
			m.prompt("What does "+agent+" go on with in each? (empty: it is not started)", 2000, func(prompt string) {
				begin(count, strings.TrimSpace(prompt))
			})
		})
}

// chosenOnes are the marked paths, sorted.
func (m *Model) chosenOnes() []string { return slices.Sorted(maps.Keys(m.marked)) }

// among are the entries of a list that belong to the marked paths, all without any.
func (m *Model) among(list []api.Because) (out []api.Because) {
	for _, b := range list {
		if len(m.marked) == 0 || m.belongs(b.Path) {
			out = append(out, b)
		}
	}
	return out
}

// belongs reports whether a path comes with one that is marked.
func (m *Model) belongs(path string) bool {
	return m.under(path) || slices.ContainsFunc(m.diff.Changes, func(c api.Change) bool {
		return c.From == path && m.covers(c)
	})
}

// covers reports whether a change comes with what is marked: a folder brings what is in it.
func (m *Model) covers(c api.Change) bool { return m.under(c.Path) || c.From != "" && m.under(c.From) }

// under reports whether a path is marked, or a folder over it.
func (m *Model) under(path string) bool {
	if len(m.marked) == 0 {
		return false
	}
	for p := path; p != ""; {
		if m.marked[p] {
			return true
		}
		p = p[:max(0, strings.LastIndexByte(p, '/'))]
	}
	return false
}

// ready says what stands against bringing over or giving up what is on the screen, "" for
// nothing.
func (m *Model) ready(verb string) string {
	switch {
	case m.problem != "":
		return m.problem
	case !m.current():
		return "this is still being looked at"
	case m.since:
		m.since = false
		return verb + " is about all, compared with the project: this is that; again to " + verb
	case len(m.diff.Changes) == 0 && verb == "apply":
		return "nothing is different"
	}
	return ""
}

func (m *Model) apply() {
	s, c := m.space(), m.standing()
	why := m.ready("apply")
	switch {
	case c == nil && s.Running:
		m.note = m.name + " is running and may change this meanwhile: c keeps it, then apply that"
		return
	case why != "":
		m.note = why
		return
	case len(m.marked) == 0 && (m.diff.More > 0 || m.diff.Unlisted):
		m.note = fmt.Sprintf("%d more than a page shows: choose paths (enter, space), or cloister apply %s",
			m.diff.More, m.name)
		return
	}
	if conflicts := m.among(m.diff.Conflicts); len(conflicts) > 0 {
		m.note = fmt.Sprintf("%d in conflict with the project, marked !: choose others (space), or cloister apply --merge %s",
			len(conflicts), m.name)
		return
	}
	in := api.WorkspaceAct{Digest: m.diff.Digest, Paths: m.chosenOnes()}
	if c != nil {
		in.Checkpoint = c.ID
	}
	// What is asked last is of what is on the screen now, whatever is looked at meanwhile.
	last := "Bring " + m.counted() + " into " + termsafe.Quote(clipped(s.Project)) + ", all or none?"
	held := m.among(m.diff.Held)
	if len(held) == 0 {
		m.bring(in, last)
		return
	}
	in.AutoRun = true
	q := &question{yes: "Y", do: func(string) { m.bring(in, last) }}
	q.text = fmt.Sprintf("Programs of the host may run or obey these %d. I looked at each of them: Y", len(held))
	for _, b := range held {
		in.Looked, q.looks = append(in.Looked, b.Path), append(q.looks, termsafe.Quote(b.Path)+": "+b.Why)
	}
	m.ask = q
}

// bring asks the last question of an apply.
func (m *Model) bring(in api.WorkspaceAct, text string) {
	name := m.name
	m.confirm(text, func() {
		m.begin("apply", in, func(out api.WorkspaceActed) string {
			m.goTo(name, m.chosen)
			return "applied: " + out.Said + "; u takes that back"
		})
	})
}

// meant is how many of the shown come with what is marked.
func (m *Model) meant() (n int) {
	for _, c := range m.diff.Changes {
		if m.covers(c) {
			n++
		}
	}
	return n
}

// counted is how many paths an act is of.
func (m *Model) counted() string {
	if n := m.meant(); n > 0 {
		return fmt.Sprintf("%d of %s", n, m.all())
	}
	return m.all()
}

// all is how many paths there are.
func (m *Model) all() string {
	if n := len(m.diff.Changes) + m.diff.More; n != 1 {
		return fmt.Sprintf("%d paths", n)
	}
	return "1 path"
}

func (m *Model) discard() {
	name, s, why := m.name, m.space(), m.ready("discard")
	switch {
	case m.chosen != keyNow:
		m.note = "a discard is about now: go to the first line"
		return
	case s.Running:
		m.note = m.name + " is running: stop it first (cloister stop " + m.name + ")"
		return
	case why != "":
		m.note = why
		return
	}
	in := api.WorkspaceAct{Digest: m.diff.Digest, Paths: m.chosenOnes()}
	switch {
	case len(in.Paths) > 0:
		m.confirm(fmt.Sprintf("Give up %s of %s, for good?", m.counted(), m.name), func() {
			m.begin("discard", in, func(out api.WorkspaceActed) string {
				m.goTo(name, keyNow)
				return "given up: " + out.Said
			})
		})
	case m.level != ofMoments:
		m.note = "choose paths first (space); d in the list of moments gives all of it up"
	default:
		all := fmt.Sprintf("all of %s with its %d checkpoints", m.name, len(s.Checkpoints))
		m.prompt("Give up "+all+", for good? Type its name", 80, func(string) {
			m.begin("discard", in, func(out api.WorkspaceActed) string { return "given up: " + out.Said })
		})
		m.ask.must = m.name
	}
}

func (m *Model) undo() {
	s := m.space()
	if len(s.Applied) == 0 {
		m.note = "nothing of it was applied"
		return
	}
	label := s.Applied[0]
	m.confirm("Take the last apply back: "+termsafe.Quote(clipped(label))+"?", func() {
		m.begin("undo", api.WorkspaceAct{Message: label}, func(api.WorkspaceActed) string { return "taken back" })
	})
}

// clipped is a name in a question, which stays one.
func clipped(s string) string { return termsafe.Clip(s, 60) }
