package resolve_test

import (
	"errors"
	"slices"
	"testing"

	"cloister/host/resolve"
)

func TestSettings(t *testing.T) {
	w := newWorld(t)
	w.program("bin/mine", 0o600)
	w.program("project/theirs", 0o600)
	w.program("shared", 0o666)
	w.link("../secret", "project/out")
	w.link("project/theirs", "mine-there")
	w.link("bin/mine", "mine-here")
	r := w.resolver()
	for path, want := range map[string]bool{
		"bin/mine": true, "mine-here": true, "project/theirs": false, "mine-there": false, "project/out": false, "shared": false,
	} {
		_, err := r.Settings(w.at(path))
		foreign, is := errors.AsType[*resolve.Foreign](err)
		if (err == nil) != want || err != nil && !is {
			t.Errorf("%s: %v", path, err)
		}
		if is && len(foreign.Hints()) == 0 {
			t.Errorf("%s: no word of what to do", path)
		}
	}
	if _, err := r.Settings(w.at("bin/mine"), w.at("bin")); err == nil {
		t.Error("what this session may write is read")
	}
	if _, err := r.Settings(w.at("absent")); err == nil {
		t.Error("what is not there is found")
	}
	env := []string{
		"A=" + w.at("project/theirs"), "GIT_SSH=" + w.at("project/theirs"), "GIT_SSH_COMMAND=ssh -i " + w.at("project/theirs"),
		"SSL_CERT_FILE=" + w.at("bin/mine"), "SSL_CERT_DIR=" + w.at("absent"),
	}
	got := r.Settled(env, "GIT_SSH", "GIT_SSH_COMMAND", "SSL_CERT_FILE", "SSL_CERT_DIR")
	if want := []string{env[0], env[3], env[4]}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTypedAndWritten(t *testing.T) {
	w := newWorld(t)
	w.program("bin/mine", 0o600)
	w.program("project/theirs", 0o600)
	w.link("../secret", "project/out")
	w.link("bin/mine", "mine-here")
	r := w.resolver()
	for path, want := range map[string]bool{"bin/mine": true, "mine-here": true, "project/theirs": true, "project/out": false, "absent": false} {
		if f, err := r.Typed(w.at(path)); (err == nil) != want || want && f.Real == "" {
			t.Errorf("typed %s: %v, %v", path, f.Real, err)
		}
	}
	if f, err := r.Typed("/dev/fd/63"); err != nil || f.Real != "/dev/fd/63" {
		t.Errorf("a descriptor of this process: %v, %v", f.Real, err)
	}
	for path, want := range map[string]bool{
		"bin/mine": true, "bin/new": true, "mine-here": true, "project/theirs": false, "project/new": false, "project/out": false, "absent/new": false,
	} {
		at, err := r.Written(w.at(path))
		if (err == nil) != want || want && at == "" {
			t.Errorf("written %s: %q, %v", path, at, err)
		}
	}
}
