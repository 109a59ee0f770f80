package registry

import (
	"fmt"

	"cloister/api"
)

// Event is something that happens to a session.
type Event string

// The closed set of events.
const (
	Granted Event = "granted" // the guardian agreed to the session
	Started Event = "started" // its command runs
	Ended   Event = "ended"   // the shim said how the command ended
	Broke   Event = "broke"   // the shim said why it could not be built
	Lost    Event = "lost"    // the shim is gone without a word
	Adopted Event = "adopted" // a shim re-offered it to this guardian
)

// none is the state before the first event.
const none api.State = ""

// transition is one row of the table: what is not in it cannot happen.
type transition struct {
	from  api.State
	event Event
	to    api.State
}

func transitions() []transition {
	return []transition{
		{none, Granted, api.StateStarting},
		{none, Adopted, api.StateStarting},
		{api.StateStarting, Started, api.StateRunning},
		{api.StateStarting, Ended, api.StateStopped},
		{api.StateStarting, Broke, api.StateFailed},
		{api.StateStarting, Lost, api.StateFailed},
		{api.StateRunning, Ended, api.StateStopped},
		{api.StateRunning, Broke, api.StateFailed},
		{api.StateRunning, Lost, api.StateFailed},
		// A link that broke without a death: the same shim comes back.
		{api.StateFailed, Adopted, api.StateStarting},
	}
}

// Impossible is the error for an event that the table does not have.
type Impossible struct {
	From  api.State
	Event Event
}

// Error names state and event.
func (i *Impossible) Error() string {
	from := i.From
	if from == none {
		from = "unknown"
	}
	return fmt.Sprintf("session: a %s session cannot be %s", from, i.Event)
}

// step finds the state that event leads to.
func step(from api.State, event Event) (api.State, error) {
	for _, t := range transitions() {
		if t.from == from && t.event == event {
			return t.to, nil
		}
	}
	return from, &Impossible{From: from, Event: event}
}

// live reports whether a session in that state has a shim.
func live(s api.State) bool { return s == api.StateStarting || s == api.StateRunning }
