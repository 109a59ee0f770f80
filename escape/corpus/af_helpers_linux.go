package corpus

import (
	"errors"
	"os"
	"strings"

	"cloister/escape"
)

// between are the findings of a case in which one session prepares what the host, or a
// later session, does. files is what the project's configuration says of files.
func between(files string, look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return with(func(*escape.World) string {
		return "version: 1\nproxy: {presets: []}\nfilesystem: {" + files + "}\n"
	}, look)
}

// newRepository is a host's script: a repository with a commit.
const newRepository = "git init -q -b main . && git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m first"

// afresh makes the project a repository with a commit, whatever a payload left there.
// It is put aside, not removed: ext4 looks at every inode that was removed in the last minutes before
// it takes a free one, and payloads leave tens of thousands of names.
const afresh = "chmod -R u+rwX . 2>/dev/null; old=$(mktemp -d ../../../old.XXXXXX) && " +
	"find . -mindepth 1 -maxdepth 1 -exec mv -t \"$old\" -- {} +; " + newRepository

// quietly is a script whose steps may fail.
func quietly(steps ...string) string {
	return "{ " + strings.Join(steps, "; ") + "; } 2>/dev/null; true"
}

// errTaken says that this machine has already what a case would make.
var errTaken = errors.New("somebody else's is there")

// unchanged tells that a file anywhere says what it said.
func (r *ruled) unchanged(path, want string) escape.Finding {
	text, err := os.ReadFile(path)
	return found("unchanged: "+path, err == nil && string(text) == want, "%v %q", err, text)
}

// same tells that a file of the project says what it said.
func (r *ruled) same(name, want string) escape.Finding {
	text, err := os.ReadFile(r.project + "/" + name)
	return found("unchanged: "+name, err == nil && string(text) == want, "%v %q", err, text)
}

// worked tells of a session that it was one.
func worked(name string, res escape.Result) escape.Finding {
	return found(name, res.Status == 0, "status %d: %s", res.Status, res.Stderr)
}

// on runs Cloister with folders before those of the usual PATH.
func (r *ruled) on(path string, words ...string) escape.Result {
	argv := append(r.variables(), "PATH="+path+":"+r.w.Env["PATH"], r.w.Cloister)
	res, err := r.w.Exec("env", append(argv, words...)...)
	if err != nil {
		res.Stderr += err.Error()
		res.Status = -1
	}
	return res
}
