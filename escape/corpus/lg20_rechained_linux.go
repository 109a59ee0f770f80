package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cloister/escape"
)

var (
	prevMember = regexp.MustCompile(`"prev":"[0-9a-f]{64}"`)
	seqMember  = regexp.MustCompile(`"seq":[0-9]+`)
	keyMember  = regexp.MustCompile(`,"key":"[^"]*"`)
)

// rechained are records whose numbers and hashes fit one another again, as far as who has
// no key can compute them. Without their key members where plain.
func rechained(lines [][]byte, plain bool) [][]byte {
	prev := strings.Repeat("0", 64)
	var out [][]byte
	for i, line := range lines {
		text := strings.TrimSuffix(string(line), "\n")
		if at := strings.LastIndex(text, `,"hash":"`); at > 0 {
			text = text[:at]
		}
		text = seqMember.ReplaceAllString(prevMember.ReplaceAllString(text, `"prev":"`+prev+`"`), `"seq":`+itoa(i+1))
		if plain {
			text = keyMember.ReplaceAllString(text, "")
		}
		sum := sha256.Sum256([]byte(text + "}"))
		prev = hex.EncodeToString(sum[:])
		out = append(out, []byte(text+`,"hash":"`+prev+"\"}\n"))
	}
	return out
}

func lg20() escape.Case {
	return escape.Case{
		ID: "LG-20", Class: "truncated and re-chained", Attack: "remove, reorder, edit and cut off records in a copy, and compute every number and hash again, with and without the keys' members, with the keys taken away",
		Source: "issue 16, second audit", Layers: []string{"audit"},
		Host: func(w *escape.World) []escape.Finding {
			anchors := w.Base + "/anchors20"
			defer clean(w.Base+"/state-copy", anchors)
			w.Outcome([]string{"--expose", w.Self}, "sh", "-c", w.Self+" fetch denied20.test:80; true")
			anchored, err := w.Exec(w.Cloister, "audit", "anchor", "--file", anchors)
			out := []escape.Finding{found("control: the head is anchored", err == nil && anchored.Status == 0, "%v %s%s", err, anchored.Stdout, anchored.Stderr)}
			half := func(l [][]byte) int { return len(l) / 2 }
			changes := []struct {
				name   string
				change func([][]byte) [][]byte
			}{
				{"a removal", func(l [][]byte) [][]byte { return slices.Delete(l, half(l), half(l)+1) }},
				{"the first removed", func(l [][]byte) [][]byte { return l[1:] }},
				{"another order", func(l [][]byte) [][]byte { l[half(l)], l[half(l)-1] = l[half(l)-1], l[half(l)]; return l }},
				{"an edited verdict", func(l [][]byte) [][]byte {
					for i := range l {
						l[i] = bytes.Replace(l[i], []byte(`"verdict":"deny"`), []byte(`"verdict":"allow"`), 1)
					}
					return l
				}},
				{"a cut tail", func(l [][]byte) [][]byte { return l[:len(l)-1] }},
				{"a long cut tail", func(l [][]byte) [][]byte { return l[:half(l)] }},
			}
			for _, c := range changes {
				for _, plain := range []bool{false, true} {
					name := c.name + ", hashes computed anew"
					if plain {
						name += ", as if there had been no keys"
					}
					res, err := verified(w, func(l [][]byte) [][]byte { return rechained(c.change(l), plain) }, false)
					out = append(out, found("verify finds and says where: "+name, err == nil && res.Status == 1 && regexp.MustCompile(`record \d+|:\d+`).MatchString(res.Stdout+res.Stderr),
						"%v status %d: %s%s", err, res.Status, res.Stdout, res.Stderr))
					res, err = verified(w, func(l [][]byte) [][]byte { return rechained(c.change(l), plain) }, true, "--anchors", anchors)
					out = append(out, found("the anchors find, with the keys taken away: "+name, err == nil && res.Status == 1, "%v status %d: %s%s", err, res.Status, res.Stdout, res.Stderr))
				}
				res, err := verified(w, c.change, false)
				out = append(out, found("verify finds "+c.name+", nothing computed", err == nil && res.Status == 1, "%v status %d: %s%s", err, res.Status, res.Stdout, res.Stderr))
			}
			same := func(l [][]byte) [][]byte { return l }
			res, err := verified(w, same, true)
			out = append(out, found("records whose keys are gone are not whole", err == nil && res.Status == 1, "%v status %d: %s%s", err, res.Status, res.Stdout, res.Stderr))
			res, err = verified(w, same, false, "--anchors", anchors)
			return append(out, found("control: the copy as it is is whole, also by its anchors", err == nil && res.Status == 0, "%v status %d: %s%s", err, res.Status, res.Stdout, res.Stderr))
		},
	}
}

// verified is what verify says of a copy of the record that was changed, or whose keys
// were taken away.
func verified(w *escape.World, change func(lines [][]byte) [][]byte, keyless bool, flags ...string) (escape.Result, error) {
	copyAt := w.Base + "/state-copy"
	clean(copyAt)
	if err := os.CopyFS(copyAt, os.DirFS(w.Base+"/state")); err != nil {
		return escape.Result{}, err
	}
	if keyless {
		clean(copyAt + "/cloister/audit-keys")
	}
	files, err := filepath.Glob(copyAt + "/cloister/audit/*.jsonl")
	if err != nil || len(files) != 1 {
		return escape.Result{}, os.ErrNotExist
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return escape.Result{}, err
	}
	lines := change(bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")))
	out := bytes.Join(lines, nil)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	if err := os.WriteFile(files[0], out, 0o600); err != nil {
		return escape.Result{}, err
	}
	state := w.Env["XDG_STATE_HOME"]
	w.Env["XDG_STATE_HOME"] = copyAt
	defer func() { w.Env["XDG_STATE_HOME"] = state }()
	return w.Exec(w.Cloister, append([]string{"audit", "verify"}, flags...)...)
}
