package secret

// automaton finds any of several texts in a stream, one table look-up for each
// byte (Aho and Corasick, 1975). It never changes once it is made.
type automaton struct {
	class    [256]uint8 // bytes that no text has are one class
	classes  int
	next     []int32 // by state*classes + class: the next state times classes, negative where a text ends
	depth    []int32 // how much of a text a state stands for
	found    []int32 // the longest text that ends here, by number from 1; 0 for none
	shortest int
	lengths  []int32 // of the texts
	owner    []int   // of the texts: whose they are
	replaced []string
}

// A needle is one text to look for.
type needle struct {
	text    string
	owner   int
	instead string // what stands in its place, of the same length; empty: nothing replaces it
}

func newAutomaton(needles []needle) *automaton {
	a := &automaton{classes: 1}
	for _, n := range needles {
		for i := range len(n.text) {
			if c := n.text[i]; a.class[c] == 0 {
				a.class[c] = uint8(a.classes) // at most 255 other bytes: see below
				a.classes++
			}
		}
	}
	a.state(0)
	for i, n := range needles {
		a.lengths = append(a.lengths, int32(len(n.text)))
		if a.shortest == 0 || len(n.text) < a.shortest {
			a.shortest = len(n.text)
		}
		a.owner = append(a.owner, n.owner)
		a.replaced = append(a.replaced, n.instead)
		at := int32(0)
		for j := range len(n.text) {
			edge := int(at)*a.classes + int(a.class[n.text[j]])
			if a.next[edge] == 0 {
				a.next[edge] = a.state(a.depth[at] + 1)
			}
			at = a.next[edge]
		}
		if a.found[at] == 0 {
			a.found[at] = int32(i + 1)
		}
	}
	a.link()
	for i, s := range a.next {
		if a.next[i] = s * int32(a.classes); a.found[s] != 0 {
			a.next[i] = -a.next[i]
		}
	}
	return a
}

func (a *automaton) state(depth int32) int32 {
	n := int32(len(a.depth))
	a.depth = append(a.depth, depth)
	a.found = append(a.found, 0)
	a.next = append(a.next, make([]int32, a.classes)...)
	return n
}

// link gives every state all its edges: where no text goes on, those of the
// longest other beginning that ends here.
func (a *automaton) link() {
	fail := make([]int32, len(a.depth))
	var queue []int32
	for c := range a.classes {
		if s := a.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if a.found[s] == 0 {
			a.found[s] = a.found[fail[s]]
		}
		for c := range a.classes {
			edge := int(s)*a.classes + c
			back := a.next[int(fail[s])*a.classes+c]
			if t := a.next[edge]; t != 0 {
				fail[t] = back
				queue = append(queue, t)
				continue
			}
			a.next[edge] = back
		}
	}
}

// step is the row of the state after one more byte; end reports whether a text ends.
func (a *automaton) step(row int32, b byte) (next int32, end bool) {
	next = a.next[int(row)+int(a.class[b])]
	if next < 0 {
		return -next, true
	}
	return next, false
}

// at is the number of the text that ends in the state of a row.
func (a *automaton) at(row int32) int32 { return a.found[int(row)/a.classes] - 1 }
