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
		timezone   string
		want       string
	}{
		{"a link", "/usr/share/zoneinfo/Europe/Berlin", nil, "", "Europe/Berlin"},
		{"a relative link", "../usr/share/zoneinfo/Etc/UTC", nil, "Asia/Tokyo\n", "Etc/UTC"},
		{"no file", "", &fs.PathError{Op: "readlink", Path: "/etc/localtime", Err: syscall.ENOENT}, "Asia/Tokyo", "UTC"},
		{"a file", "", &fs.PathError{Op: "readlink", Path: "/etc/localtime", Err: syscall.EINVAL}, "", ""},
		{"a file, and its name", "", &fs.PathError{Op: "readlink", Path: "/etc/localtime", Err: syscall.EINVAL}, " Etc/GMT+5\n", "Etc/GMT+5"},
		{"a name with a slash before", "/run/zone", nil, "/etc/passwd\n", ""},
		{"a name that goes up", "/run/zone", nil, "Etc/../../passwd", ""},
		{"two names", "/run/zone", nil, "Etc/UTC\nEurope/Berlin\n", ""},
		{"a link elsewhere", "/run/zone", nil, "", ""},
	} {
		if got := session.Zone(c.link, c.err, func() string { return c.timezone }); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLocaleOfAJobAndOfATerminal(t *testing.T) {
	none := func(string) string { return "" }
	for terminal, want := range map[bool]string{true: "xterm", false: "dumb"} {
		if l := session.LocaleOf(none, terminal); l.Term != want || l.Lang != "C.UTF-8" {
			t.Errorf("with a terminal: %v: %+v", terminal, l)
		}
	}
	own := session.LocaleOf(func(key string) string { return key + "!" }, true)
	if want := (session.Locale{Term: "TERM!", Lang: "LANG!", TZ: "TZ!"}); own != want {
		t.Errorf("%+v, want the environment's own", own)
	}
}
