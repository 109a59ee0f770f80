package corpus

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"cloister/escape"
)

// sharing has the commands of an instance run in one cloister, by exec, where each start would be that of a machine
// that is emulated: what is tried is what a command inside can reach, and not how a cloister begins.
type sharing struct {
	one     bool   // cloister is enough
	flags   string // of the cloister that there is
	number  int
	waiting sync.WaitGroup
}

// together lets the commands of a look share a cloister.
func together(look func(r *ruled) []escape.Finding) func(r *ruled) []escape.Finding {
	return func(r *ruled) []escape.Finding {
		r.one = r.w.Kind.Together
		return look(r)
	}
}

// commands is hosted, with commands that share a cloister.
func commands(text string, look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return hosted(text, together(look))
}

// shares gives the cloister that the words of a run may share, and its command: they say nothing but the project and
// what is shown besides.
func (r *ruled) shares(words []string) (name string, argv []string) {
	end := slices.Index(words, "--")
	if !r.one || end < 0 || words[0] != "run" {
		return "", nil
	}
	flags := words[1:end]
	for i := 0; i < len(flags); i += 2 {
		ours := i+1 < len(flags) && (flags[i] == "-C" && flags[i+1] == r.project || flags[i] == "--expose")
		if !ours {
			return "", nil
		}
	}
	return r.shared(flags), words[end+1:]
}

// shared gives the running cloister with these flags. One that cannot be had has no name, and the command then starts
// one of its own.
func (r *ruled) shared(flags []string) string {
	key := strings.Join(flags, " ")
	if name := r.named(); r.flags == key && strings.Contains(r.cloister("list", "--json").Stdout, `"`+name+`"`) {
		return name
	}
	r.apart()
	r.number++
	start := slices.Concat([]string{"run", "-d", "--name", r.named()}, flags, []string{"--", "sleep", "infinity"})
	if r.cloister(start...).Status != 0 {
		return ""
	}
	r.flags = key
	return r.named()
}

func (r *ruled) named() string { return "together" + strconv.Itoa(r.number) }

// apart ends the cloister that was shared.
func (r *ruled) apart() {
	if r.flags != "" {
		r.flags = ""
		r.cloister("stop", "-t", "1s", r.named())
	}
}
