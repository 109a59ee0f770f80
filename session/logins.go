package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"cloister/api"
	"cloister/sandbox"
)

// netrcPath is where a program finds logins that is sent there: curl --netrc-file, or
// NETRC for one command. No variable names it for all: Python's requests would then put
// a login in the place of an Authorization that the program wrote itself.
const netrcPath = "/etc/netrc"

// gitLogins are credential helpers that say placeholders. They hold only what
// anyone inside may see.
func gitLogins(logins []api.PasswordLogin) []byte {
	var b strings.Builder
	for _, l := range logins {
		fmt.Fprintf(&b, "[credential \"https://%s\"]\n\thelper = \"!f() { test \\\"$1\\\" = get && printf "+
			"'username=%s\\\\npassword=%s\\\\n'; }; f\"\n", l.Host, l.User, l.Password)
	}
	return []byte(b.String())
}

// netrc is the same for programs that read that. It has no ports.
func netrc(logins []api.PasswordLogin) []byte {
	var b strings.Builder
	for _, l := range logins {
		if !strings.Contains(l.Host, ":") {
			fmt.Fprintf(&b, "machine %s\n\tlogin %s\n\tpassword %s\n", l.Host, l.User, l.Password)
		}
	}
	return []byte(b.String())
}

// loginsDir has the files of logins. They are each session's own: the home is all
// sessions' of a project, and their placeholders differ.
const loginsDir = "/etc/cloister/logins"

func loginPath(file string) string { return path.Join(loginsDir, file) }

func loginFiles(list []api.LoginFile) []sandbox.File {
	var out []sandbox.File
	for _, f := range list {
		out = append(out, sandbox.File{Path: sandbox.GuestPath(loginPath(f.Path)), Data: []byte(f.Text), Mode: 0o644})
	}
	return out
}

// linkLogin makes a link in the private home that leads to one. In a cloister without
// that login it leads nowhere: a program finds nothing. What is there already stays. The
// home is the agent's: nothing in it leads out of it.
func linkLogin(home, file string) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if dir := path.Dir(file); dir != "." {
		if err := makeOwn(root, home, dir); err != nil {
			return err
		}
	}
	target := loginPath(file)
	switch at, err := root.Readlink(file); {
	case err == nil && at == target:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return root.Symlink(target, file)
	}
	return errors.New("a file is there already; remove it inside, and start again")
}

// makeOwn makes the folders of a path in a home, for the home's owner: root may
// make them for someone else.
func makeOwn(root *os.Root, home, dir string) error {
	info, err := os.Stat(home)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		switch err := root.Mkdir(at, 0o700); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return err
		case ok:
			if err := root.Lchown(at, int(owner.Uid), int(owner.Gid)); err != nil {
				return err
			}
		}
	}
	return nil
}
