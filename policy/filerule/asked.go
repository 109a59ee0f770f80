package filerule

// Asks is about which uses of a closed path a person is asked. Its zero value is none.
type Asks struct{ Read, Write, Exec bool }

// Any reports whether a person is asked at all.
func (a Asks) Any() bool { return a.Read || a.Write || a.Exec }

// notHeld is why a statement that asks is not kept everywhere.
const notHeld = "ask is not possible here: only native holds a call until a person has answered, on a " +
	"workspace that is live, in mode enforce, and where no kernel judges files and programs; elsewhere permit or forbid it"

// asked keeps a statement that asks: its files are closed by the view, and a person's yes hands in what was looked at.
// It makes no list: of what it does not name it says nothing.
func asked(action string, paths []Path) Held {
	asks := Asks{Read: action == Open || action == OpenRead, Write: action == Open || action == OpenWrite,
		Exec: action == Execute}
	for i := range paths {
		p := &paths[i]
		switch {
		case p.Digest != "":
			return Held{Why: "ask is for files and patterns, and not for a program by its digest"}
		case p.Dir:
			return Held{Why: "ask is not possible for a folder: who has it open reaches all that is in it, and what is above; " +
				"name files as File:: or by a pattern, Glob::"}
		}
		p.Ask, p.Write = asks, action == OpenWrite
	}
	h := Held{Means: View, Closed: paths, Why: notHeld, By: "the view, and a person: what is named is shown empty, and " +
		"handed in where a person allows that it is opened (native)"}
	switch action {
	case Execute:
		h.By = "the view, and a person: a program is shown empty, and filled with what a person has seen and allowed, " +
			"until the session ends (native)"
	case OpenWrite:
		h.By = "the view, and a person: what is named is read-only, and handed in to be written where a person allows it " +
			"(native)"
	}
	return h
}
