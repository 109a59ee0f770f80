package session

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cloister/agent"
	"cloister/api"
	"cloister/sandbox"
	"cloister/workspace"
)

// maxSettings bounds a file of settings, which a payload may have written.
const maxSettings = 8 << 20

// agentHome is what the agent finds in its home. A program of an agent's name is that
// agent, whichever way it was typed.
func (s *Shim) agentHome(grant api.SessionGrant) agent.Home {
	name := cmp.Or(s.Request.Agent, filepath.Base(s.Argv[0]))
	folders := []string{string(s.Project.Root)}
	if s.View.None {
		folders = nil
	}
	return agent.HomeOf(name, folders, func(key string) string {
		for _, e := range s.Env {
			if k, v, _ := strings.Cut(e, "="); k == key {
				return v
			}
		}
		return grant.Env[key]
	})
}

// homeFiles are the files that lie outside the home and are found in it: those of
// logins, and the agent's own where no login has that name.
func homeFiles(grant api.SessionGrant, h agent.Home) []api.LoginFile {
	list := slices.Clone(grant.LoginFiles)
	for _, f := range h.Files {
		if !slices.ContainsFunc(list, func(l api.LoginFile) bool { return l.Path == f.Path }) {
			list = append(list, api.LoginFile{Path: f.Path, Text: f.Text})
		}
	}
	return list
}

// systemFiles are an agent's files of the system's. What two say of one file is one
// file.
func systemFiles(list []agent.File) []sandbox.File {
	var out []sandbox.File
	for _, f := range list {
		if i := slices.IndexFunc(out, func(o sandbox.File) bool { return string(o.Path) == f.Path }); i >= 0 {
			out[i].Data = append(out[i].Data, f.Text...)
			continue
		}
		out = append(out, sandbox.File{Path: sandbox.GuestPath(f.Path), Data: []byte(f.Text), Mode: 0o644})
	}
	return out
}

// furnish writes an agent's answers into the private home and links its files there.
// The home is the payload's: what is in the way stays, and is reported.
func furnish(files []api.LoginFile, answers []agent.Answer, view *workspace.View) (notices []string) {
	for _, b := range view.Binds {
		if b.Target != view.Home || b.Access != sandbox.ReadWrite {
			continue
		}
		for _, f := range files {
			if err := linkLogin(string(b.Source), f.Path); err != nil {
				notices = append(notices, fmt.Sprintf("the login in ~/%s is not in its place: %v", f.Path, err))
			}
		}
		for len(answers) > 0 {
			file := answers[0].File
			n := slices.IndexFunc(answers, func(a agent.Answer) bool { return a.File != file })
			if n < 0 {
				n = len(answers)
			}
			if err := answer(string(b.Source), file, answers[:n]); err != nil {
				notices = append(notices, fmt.Sprintf("the agent may ask what it asks a new person: ~/%s: %v", file, err))
			}
			answers = answers[n:]
		}
	}
	return notices
}

// answer puts answers into one document of a home, in one step: the agent of another
// cloister of the project may be reading it.
func answer(home, file string, answers []agent.Answer) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	doc, mode, err := readSettings(root, file)
	if err != nil {
		return err
	}
	changed := false
	for _, a := range answers {
		changed = put(doc, a) || changed
	}
	if !changed {
		return nil
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	if dir := path.Dir(file); dir != "." {
		if err := makeOwn(root, home, dir); err != nil {
			return err
		}
	}
	return replaceOwn(root, home, file, append(text, '\n'), mode)
}

// readSettings reads a document: an empty one where there is none.
func readSettings(root *os.Root, file string) (map[string]any, fs.FileMode, error) {
	info, err := root.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]any{}, 0o600, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("it is no regular file")
	}
	f, err := root.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, 0, err
	}
	if len(text) > maxSettings {
		return nil, 0, errors.New("it is too large")
	}
	doc := map[string]any{}
	if len(bytes.TrimSpace(text)) == 0 {
		return doc, info.Mode().Perm(), nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // what is not ours stays as it was written
	if err := d.Decode(&doc); err != nil || doc == nil {
		return nil, 0, errors.New("it is no JSON object")
	}
	return doc, info.Mode().Perm(), nil
}

// put puts one answer into a document, and reports whether that changed it.
func put(doc map[string]any, a agent.Answer) bool {
	at := doc
	for _, key := range a.Keys[:len(a.Keys)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			if at[key] != nil {
				return false // of another shape than is known: it is the agent's
			}
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	key := a.Keys[len(a.Keys)-1]
	have, there := at[key]
	if a.Add {
		list, ok := have.([]any)
		if there && !ok || slices.Contains(list, a.Value) {
			return false
		}
		at[key] = append(list, a.Value)
		return true
	}
	if there && (!a.Over || have == a.Value) {
		return false
	}
	at[key] = a.Value
	return true
}

// replaceOwn puts a file in the place of another, for the home's owner.
func replaceOwn(root *os.Root, home, file string, text []byte, mode fs.FileMode) error {
	info, err := os.Stat(home)
	if err != nil {
		return err
	}
	aside := file + ".cloister-" + rand.Text()[:8]
	f, err := root.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && err == nil {
		err = f.Chown(int(owner.Uid), int(owner.Gid))
	}
	err = errors.Join(err, f.Chmod(mode|0o600), f.Close())
	if err == nil {
		err = root.Rename(aside, file)
	}
	if err != nil {
		_ = root.Remove(aside)
	}
	return err
}
