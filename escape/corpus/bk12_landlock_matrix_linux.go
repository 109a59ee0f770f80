package corpus

import (
	"strconv"
	"strings"

	"cloister/escape"
)

func bk12() escape.Case {
	return escape.Case{
		ID: "BK-12", Class: "Landlock matrix", Attack: "start with Landlock's ABI forced to 0 to 7: below 5 it refuses by name, from 5 on the attempts on files are held",
		Source: "go-landlock (downgrades in silence)", Layers: []string{"no start"},
		Except: map[escape.Column]string{
			escape.Docker:  "Landlock is not used in containers",
			escape.GVisor:  "Landlock holds no command of a kernel of its own",
			escape.MicroVM: "Landlock holds a command there by its guest's kernel, which no word of the host's makes another",
		},
		Host: func(w *escape.World) []escape.Finding {
			if w.Off == "" {
				return []escape.Finding{found("the build with cloister_layeroff", false, "it was not given: -off")}
			}
			normal := w.Cloister
			w.Cloister = w.Off
			defer func() {
				w.Cloister = normal
				delete(w.Extra, "CLOISTER_LANDLOCK_ABI")
			}()
			var out []escape.Finding
			for abi := range 8 {
				w.Extra["CLOISTER_LANDLOCK_ABI"] = strconv.Itoa(abi)
				if abi < 5 {
					res := w.Outcome(nil, "touch", "ran-bk12")
					out = append(out, found("ABI "+strconv.Itoa(abi)+" is refused by name", res.Status == 125 && strings.Contains(res.Stderr, "Landlock") && strings.Contains(res.Stderr, "hint:") && !exists(w.Project+"/ran-bk12"), "status %d: %s", res.Status, res.Stderr))
					continue
				}
				out = append(out, held12(w, abi)...)
			}
			return out
		},
	}
}

// held12 makes the attempts on files and sockets with one ABI.
func held12(w *escape.World, abi int) []escape.Finding {
	cases := []escape.Case{fs01(), fs01a(), fs02(), fs03(), fs04(), fs07(), fs08(), fs23(), fs27(), nw08(), nw09(), nw10(), pr03()}
	res, err := w.Try(nil, cases)
	if err != nil {
		return escape.NoHost("run with ABI "+strconv.Itoa(abi), err)
	}
	answers, other := escape.ReadAnswers(res.Stdout)
	var out []escape.Finding
	seen := map[string]bool{}
	for _, a := range answers {
		seen[a.Case] = true
		if a.State != escape.Held {
			out = append(out, found("ABI "+strconv.Itoa(abi)+": "+a.Case+" "+a.Try, false, "%s: %s", a.State, a.Text))
		}
	}
	return append(out, found("ABI "+strconv.Itoa(abi)+": every case was tried", len(seen) == len(cases), "%d of %d: status %d %.300s%.600s", len(seen), len(cases), res.Status, other, res.Stderr))
}
