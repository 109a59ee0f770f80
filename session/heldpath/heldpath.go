// Package heldpath says why a program inside could not write a protected path.
//
// The kernel answers "Read-only file system" or "Device or resource busy", and no tool
// knows that Cloister meant it. The promise: where such an answer names a protected path
// on the cloister's terminal, one line behind it names the path and the flag that allows
// it, once for each path; a program that draws its screen is not disturbed. Git's own
// attempts at its configuration are seen where there is no terminal too.
//
// It decides nothing, and believes what a program prints only as far as this: whoever
// prints such an error gets a line about a path that is protected indeed. What goes into
// a file or a pipe is not read.
//
// Most readers want [New].
package heldpath

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cloister/internal/realpath"
	"cloister/internal/shellword"
	"cloister/internal/termsafe"
	"cloister/sandbox"
	"cloister/workspace/stubs"
)

// Options say where a person is.
type Options struct {
	// Root is the project's top, and Dir where the person stands, from which the words of
	// the flag are read.
	Root, Dir string
	// Allow makes a flag a whole command; nil for no words at all.
	Allow func(flag string) string
	// Above shows a line, which lacks who says it, over a screen that a program draws; nil keeps it for the end.
	Above func(line string)
}

// ForCommand says by what words a person allows a path: those of the verb that they typed, and of
// the command where it is short enough to be typed again.
func ForCommand(root, verb string, argv []string) Options {
	here, _ := os.Getwd() // without it the path is a whole one
	return Options{Root: root, Dir: here, Allow: func(flag string) string {
		if verb == "start" {
			return "cloister start " + flag
		}
		command := shellword.Line(argv...)
		if len(command) > 60 || strings.ContainsRune(command, '\n') {
			command = "CMD"
		}
		return "cloister run " + flag + " -- " + command
	}}
}

// Words are those for one cloister. It is safe for use by several goroutines.
type Words struct {
	o       Options
	protect []sandbox.Protect
	absent  map[string]bool // what a start made, and the end takes away

	mu      sync.Mutex
	tail    []byte
	done    map[sandbox.GuestPath]bool
	waiting []string // lines that had no place yet
}

const (
	// most is how many paths have a line: a program that walks over all of them says no more.
	most = 12
	// before and behind are how far from the error its path is looked for where a screen
	// is drawn, which has no lines.
	before, behind = 600, 300
	maxTail        = 4096
	// alias is the project in every cloister (workspace).
	alias = "/work/"
)

// New has the words for what a cloister holds, of which made stands for what is absent.
func New(list []sandbox.Protect, made []stubs.Stub, o Options) *Words {
	w := &Words{o: o, protect: list, absent: map[string]bool{}, done: map[sandbox.GuestPath]bool{}}
	for _, s := range made {
		w.absent[filepath.Join(s.Root, s.Rel)] = true
	}
	return w
}

// answers are what the kernel says of a protected path, as C, Node, Python and Vim print
// it; quick are letters that each of them has.
var (
	answers = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)device or resource busy|read-only file system|resource busy or locked|` +
			`E212: Can't open file for writing`)
	})
	quick = [][]byte{[]byte("usy"), []byte("nly file s"), []byte("E212")}
	// controls are sequences of a terminal; those that move write a space.
	controls = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b\\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")
	})
)

// Heard reads what a program wrote to its terminal. say, if any, is to be written behind
// chunk[:at]. lines reports whether the terminal is used line by line.
func (w *Words) Heard(chunk []byte, lines func() bool) (at int, say []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.o.Allow == nil {
		return 0, nil
	}
	text := append(w.tail, chunk...)
	var found [][]int
	if slices.ContainsFunc(quick, func(q []byte) bool { return bytes.Contains(text, q) }) {
		found = answers().FindAllIndex(text, -1)
	}
	if len(found) == 0 && len(w.waiting) == 0 {
		w.keep(text)
		return 0, nil
	}
	whole := lines()
	if whole {
		w.inLines(text, found)
	} else {
		for _, f := range found {
			w.meet(string(text[max(0, f[0]-before):min(len(text), f[1]+behind)]))
		}
	}
	w.keep(text)
	end := bytes.LastIndex(chunk, []byte("\r\n"))
	if !whole || end < 0 || len(w.waiting) == 0 {
		if !whole && w.o.Above != nil {
			for _, line := range w.waiting {
				w.o.Above(line)
			}
			w.waiting = nil
		}
		return 0, nil
	}
	for _, line := range w.waiting {
		say = fmt.Appendf(say, "cloister: %s\r\n", line)
	}
	w.waiting = nil
	return end + 2, say
}

// inLines looks at each line that is whole.
func (w *Words) inLines(text []byte, found [][]int) {
	for _, f := range found {
		end := bytes.IndexByte(text[f[1]:], '\n')
		if end < 0 {
			return // the rest of the line is under way
		}
		w.meet(string(text[bytes.LastIndexByte(text[:f[0]], '\n')+1 : f[1]+end]))
	}
}

// keep remembers what may be the beginning of more.
func (w *Words) keep(text []byte) {
	rest := text[bytes.LastIndexByte(text, '\n')+1:]
	w.tail = append(w.tail[:0], rest[max(0, len(rest)-maxTail):]...)
}

// meet has a line for each protected path that an error names.
func (w *Words) meet(text string) {
	text = controls().ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasSuffix(s, "m") {
			return ""
		}
		return " "
	})
	apart := func(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"`,;()[]<>", r) }
	for _, word := range strings.FieldsFunc(text, apart) {
		if p, ok := w.named(strings.TrimRight(word, ":.")); ok {
			w.wait(p)
		}
	}
}

// named is the protected path that a word of an error means. The word is relative to a
// folder that is not known: one that ends a protected path counts where it is more than
// a plain name.
func (w *Words) named(word string) (sandbox.Protect, bool) {
	if word == "" {
		return sandbox.Protect{}, false
	}
	full := filepath.Clean(word)
	if rest, ok := strings.CutPrefix(full, alias); ok {
		full = filepath.Join(w.o.Root, rest)
	}
	if !filepath.IsAbs(full) {
		full = filepath.Join(w.o.Root, word)
	}
	bare := filepath.Clean(word)
	for below := true; below; {
		bare, below = strings.CutPrefix(bare, "../")
	}
	telling := strings.ContainsRune(bare, '/') || strings.HasPrefix(bare, ".") && len(bare) > 2
	var pinned sandbox.Protect
	for _, p := range w.protect {
		target := string(p.Target)
		switch {
		case p.Pin && target == full:
			pinned = p
		case !p.Pin && realpath.Inside(full, target), !p.Pin && telling && strings.HasSuffix(target, "/"+bare):
			return p, true
		}
	}
	return pinned, pinned.Target != ""
}

// wait has the line for one path at the ready, unless it had one already.
func (w *Words) wait(p sandbox.Protect) {
	if w.done[p.Target] || len(w.done) >= most {
		return
	}
	w.done[p.Target] = true
	w.waiting = append(w.waiting, w.line(p))
}

func (w *Words) line(p sandbox.Protect) string {
	shown := termsafe.Text(w.short(string(p.Target), w.o.Root))
	switch {
	case p.Pin:
		return fmt.Sprintf("%s stays where it is while a cloister runs: what is protected lies in it", shown)
	case p.Empty && !p.Yields && !w.absent[string(p.Target)]:
		return fmt.Sprintf("%s is hidden in this cloister, and cannot be written here", shown)
	}
	path := w.short(string(p.Target), w.o.Dir)
	words := w.o.Allow("--expose " + shellword.Line(path+":rw"))
	if w.absent[string(p.Target)] { // nothing is there yet, and only what is there can be shown
		command := "mkdir -p"
		if p.File {
			command = "touch"
		}
		words = command + " " + shellword.Line(path) + " && " + words
	}
	return fmt.Sprintf("%s is protected, since programs of the host obey it: change it on the host, or allow it: %s "+
		"(cloister review shows what changed)", shown, termsafe.Text(words))
}

// short is a path from a folder where it lies below it.
func (w *Words) short(path, from string) string {
	if rel, err := filepath.Rel(from, path); err == nil && filepath.IsLocal(rel) {
		if strings.HasPrefix(rel, "-") {
			return "./" + rel // a payload may name a folder like a flag
		}
		return rel
	}
	return path
}

// Left are the lines that had no place.
func (w *Words) Left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.waiting
	w.waiting = nil
	return left
}
