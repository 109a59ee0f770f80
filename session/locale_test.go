package session_test

import (
	"io/fs"
	"syscall"
	"testing"

	"cloister/session"
)

func TestZone(t *testing.T) {
	for _, c := range []struct {
		name, link string
		err        error
		want       string
	}{
		{"a link", "/usr/share/zoneinfo/Europe/Berlin", nil, "Europe/Berlin"},
		{"a relative link", "../usr/share/zoneinfo/Etc/UTC", nil, "Etc/UTC"},
		{"no file", "", &fs.PathError{Op: "readlink", Path: "/etc/localtime", Err: syscall.ENOENT}, "UTC"},
		{"a file", "", &fs.PathError{Op: "readlink", Path: "/etc/localtime", Err: syscall.EINVAL}, ""},
		{"a link elsewhere", "/run/zone", nil, ""},
	} {
		if got := session.Zone(c.link, c.err); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
