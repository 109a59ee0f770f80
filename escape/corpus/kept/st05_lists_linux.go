// Package kept has attempts on the person's files by way of a kept overlay workspace, each in a
// project of its own, so that the world's stays what it is.
//
// Most readers want [Cases].
package kept

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// Cases are the attempts.
func Cases() []escape.Case { return []escape.Case{lists()} }

// opened is a payload that has other users write what an apply may carry over: by lists of its own, and
// by the mode that a list gives a file of the person's. It says what it could set.
const opened = `import os, struct
def acl(*may):
    tags = ((1, -1), (2, 4321), (4, -1), (16, -1), (32, -1))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", t, m, i) for (t, i), m in zip(tags, may) if m is not None)
def attempt(what, do, *words):
    try:
        do(*words)
        print("did", what)
    except OSError as e:
        print("did not", what, e)
def append(name):
    open(name, "a").write("payload\n")
os.makedirs("made")
for name in ("made/in", "new", "plain", "shared"):
    attempt("write " + name, append, name)
attempt("move", os.rename, "moved", "to")
for name in ("made", "made/in", "new", "plain", "shared", "to"):
    attempt("name another in " + name, os.setxattr, name, "system.posix_acl_access", acl(7, 7, 7, 7, 7))
    attempt("mask " + name, os.setxattr, name, "system.posix_acl_access", acl(7, None, 7, 7, 7))
`

// list is an access list: what the owner, user 4321, the group, the mask and others may.
func list(may ...uint16) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 2)
	for i, tag := range []uint16{1, 2, 4, 16, 32} {
		id := ^uint32(0)
		if tag == 2 {
			id = 4321
		}
		out = binary.LittleEndian.AppendUint16(out, tag)
		out = binary.LittleEndian.AppendUint16(out, may[i])
		out = binary.LittleEndian.AppendUint32(out, id)
	}
	return out
}

const access = "system.posix_acl_access"

func lists() escape.Case {
	return escape.Case{
		ID: "ST-05", Class: "access lists in an overlay",
		Attack: "let other users write what an apply brings over: by access lists on new and changed files and folders, and by the mask that such a list puts into a file's mode, also of a file of the person's that is moved",
		Source: "docs/decisions/0096", Layers: []string{"apply"},
		Except: map[escape.Column]string{escape.GVisor: "gVisor puts no access list on what the host shows"},
		Host: func(w *escape.World) []escape.Finding {
			p := project{w, w.Base + "/lists"}
			out := p.furnish()
			if !out[0].Held {
				return out
			}
			before := p.reach("shared", "plain", "gone")
			in := p.cloister("run", "--workspace", "overlay", "--name", "st05", "-C", p.dir, "--", "sh", "-c", "rm gone; exec python3 -c '"+opened+"'")
			out = append(out, found("the payload", in.Status == 0 && strings.Contains(in.Stdout, "did mask made"), "%d %s%s", in.Status, in.Stdout, in.Stderr))
			out = append(out, p.control()...)

			applied := p.cloister("apply", "st05", "--auto-run")
			twice := p.cloister("apply", "st05", "--auto-run")
			out = append(out, found("the apply", applied.Status == 0, "%d %s", applied.Status, applied.Stderr),
				found("and again", twice.Status == 0, "%d %s", twice.Status, twice.Stderr))
			for _, name := range []string{"new", "plain", "made", "made/in"} {
				out = append(out, found("no other user by a list: "+name, p.list(name) == nil && p.mode(name) != 0 && p.mode(name)&0o022 == p.mode(name)&0o020,
					"%o %x", p.mode(name), p.list(name)))
			}
			// The person lets user 4321 read both; the group may nothing, and others neither write. Under
			// mapped owners (root's cloisters) the kernel copies up no list that names another user (EINVAL).
			kept := []string{"shared", "to"}
			if strings.Contains(in.Stdout, "did not move") {
				kept = []string{"shared", "moved"}
			}
			for _, name := range kept {
				is := p.list(name)
				out = append(out, found("what the person let others do, no more: "+name, len(is) == 44 && string(is[12:36]) == string(list(0, 4, 0, 4, 0)[12:36]) && p.mode(name)&0o002 == 0,
					"%o %x", p.mode(name), is))
			}
			undone := p.cloister("undo", "st05", "-n", "2")
			out = append(out, found("an undo brings the lists back", undone.Status == 0 && p.reach("shared", "plain", "gone") == before,
				"%d %s: %s, was %s", undone.Status, undone.Stderr, p.reach("shared", "plain", "gone"), before))
			gone := p.cloister("discard", "st05")
			return append(out, found("it is given up", gone.Status == 0, "%d %s", gone.Status, gone.Stderr))
		},
	}
}

type project struct {
	w   *escape.World
	dir string
}

func (p project) furnish() []escape.Finding {
	err := os.Mkdir(p.dir, 0o755)
	for _, name := range []string{"shared", "moved", "gone", "plain"} {
		text := "the person's " + name + "\n"
		err = errors.Join(err, os.WriteFile(filepath.Join(p.dir, name), []byte(strings.Repeat(text, 20)), 0o640))
		if name != "plain" {
			err = errors.Join(err, unix.Setxattr(filepath.Join(p.dir, name), access, list(6, 4, 0, 4, 0), 0))
		}
	}
	return []escape.Finding{found("the project is made", err == nil, "%v", err)}
}

func (p project) cloister(words ...string) escape.Result {
	res, err := p.w.Exec("sh", append([]string{"-c", `cd "$1" && shift && exec "$@"`, "sh", p.dir, p.w.Cloister}, words...)...)
	if err != nil {
		res.Stderr, res.Status = res.Stderr+err.Error(), -1
	}
	return res
}

func (p project) mode(name string) uint32 {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(p.dir, name), &st) != nil {
		return 0
	}
	return uint32(st.Mode)
}

func (p project) list(name string) []byte { return listAt(filepath.Join(p.dir, name)) }

func listAt(path string) []byte {
	value := make([]byte, 256)
	n, err := unix.Lgetxattr(path, access, value)
	if err != nil {
		return nil
	}
	return value[:n]
}

func (p project) reach(names ...string) (out string) {
	for _, name := range names {
		out += fmt.Sprintf("%s %o %x; ", name, p.mode(name), p.list(name))
	}
	return out
}

// control has the layer's files let user 4321 write, where the payload has no name for that user, and
// shows that a plain copy would carry that over.
func (p project) control() []escape.Finding {
	layers, err := filepath.Glob(p.w.Base + "/data/cloister/state/fs*/*/up")
	for _, layer := range layers {
		if _, serr := os.Lstat(layer + "/made/in"); serr != nil {
			continue
		}
		for _, name := range []string{"made", "made/in", "new", "plain", "shared", "to"} {
			if serr := unix.Setxattr(layer+"/"+name, access, list(7, 7, 4, 7, 7), 0); !errors.Is(serr, unix.ENOENT) {
				err = errors.Join(err, serr)
			}
		}
		copied := p.dir + "-copied"
		res, cerr := p.w.Exec("cp", "-a", layer, copied)
		err = errors.Join(err, cerr)
		is := listAt(copied + "/new")
		return []escape.Finding{found("control: a copy of the layer lets another user write", err == nil && res.Status == 0 && string(is) == string(list(7, 7, 4, 7, 7)),
			"%v %s %x", err, res.Stderr, is)}
	}
	return []escape.Finding{found("control: a copy of the layer lets another user write", false, "%v %q", err, layers)}
}

func found(name string, held bool, format string, args ...any) escape.Finding {
	f := escape.Finding{Name: name, Held: held}
	if !held {
		f.Detail = fmt.Sprintf(format, args...)
	}
	return f
}
