package git_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/git"
	"cloister/host/resolve"
)

func TestParseRemote(t *testing.T) {
	for text, want := range map[string]string{
		"https://GitHub.com/acme/app.git":       "https://github.com/acme/app.git",
		"https://github.com:443/acme/app/":      "https://github.com/acme/app",
		"https://me@dev.example/acme/_git/app":  "https://me@dev.example/acme/_git/app",
		"http://127.0.0.1:8080/app.git":         "http://127.0.0.1:8080/app.git",
		"ssh://git@github.com:22/acme/app.git":  "ssh://git@github.com/acme/app.git",
		"ssh://git@[::1]:2222/acme/app.git":     "ssh://git@[::1]:2222/acme/app.git",
		"git@github.com:acme/app.git":           "git@github.com:acme/app.git",
		"work:acme/app.git":                     "work:acme/app.git",
		"/srv/app.git":                          "file:///srv/app.git",
		"file:///srv/app.git":                   "file:///srv/app.git",
		"git://git.example/app.git":             "git://git.example/app.git",
		"https://git.example/a%20b.git":         "https://git.example/a%20b.git",
		"ssh://git@git.example/~me/app.git":     "ssh://git@git.example/~me/app.git",
		"":                                      "",
		"-oProxyCommand=x:y":                    "",
		"--upload-pack=x":                       "",
		"ext::sh -c id":                         "",
		"ext::sh":                               "",
		"fd::17":                                "",
		"ftp://git.example/x":                   "",
		"https://user:pw@git.example/x":         "",
		"https://git.example/x?y":               "",
		"https://git.example/x#y":               "",
		"https://git.example/":                  "",
		"https://-x/y":                          "",
		"ssh://-oProxyCommand=x/y":              "",
		"ssh://-x@git.example/y":                "",
		"-x@git.example:y":                      "",
		"git.example:-x":                        "",
		"git@-x:y":                              "",
		"https://git.example/x\ny":              "",
		"https://git.example/x\x00y":            "",
		"https://git.example/ж":                 "",
		"https://0x7f.1/x":                      "",
		"https://git.example\\@evil.example/x":  "",
		"https://git.example/../x":              "",
		"../x":                                  "",
		"./x":                                   "",
		"x":                                     "",
		"/srv/../etc":                           "",
		"file://host/srv":                       "",
		"https://" + strings.Repeat("a", 3000):  "",
		"https:// /x":                           "",
		"git.example::x":                        "",
		"https://git.example/x'; touch /tmp/y'": "",
	} {
		r, err := git.ParseRemote(text)
		if r.URL != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, r.URL, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "remote ") {
			t.Errorf("%q: %v", text, err)
		}
		if again, err := git.ParseRemote(r.URL); want != "" && (err != nil || again != r) {
			t.Errorf("%q: its spelling %q is read as %q, %v", text, r.URL, again.URL, err)
		}
	}
}

func TestNear(t *testing.T) {
	for text, want := range map[string]bool{
		"https://127.0.0.1/x": true, "https://127.8.8.8:8443/x": true, "https://169.254.169.254/x": true, "https://0.0.0.0/x": true, "https://0.1.2.3/x": true,
		"https://[::1]/x": true, "https://[::]/x": true, "ssh://git@[fe80::1]/x": true, "https://[fd00:ec2::254]/x": true, "https://100.100.100.200/x": true,
		"https://localhost/x": true, "https://LOCALHOST:8443/x": true, "https://a.localhost/x": true, "https://metadata.google.internal/x": true,
		"git@127.0.0.1:x": true, "localhost:x": true, "http://127.0.0.1:8080/x": true,
		"https://github.com/x": false, "https://10.0.0.5/x": false, "git@git.example:x": false, "https://localhost.example/x": false, "/srv/x": false,
	} {
		r, err := git.ParseRemote(text)
		if err != nil || r.Near != want {
			t.Errorf("%s: %v, %v; want %v", text, r.Near, err, want)
		}
	}
}

func TestReach(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		".gitconfig":  "[url \"https://inner.example/\"]\n\tinsteadOf = https://outer.example/\n[http \"https://far.example/\"]\n\tproxy = http://proxy.example:1\n",
		".ssh/config": "Host work\n\tHostName git.inner.example\nHost jumped\n\tProxyJump gate.example\n",
	} {
		file := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	// ssh takes the home of the user's record, not HOME.
	ssh := "#!/bin/sh\nexec /usr/bin/ssh -F " + home + "/.ssh/config \"$@\"\n"
	if err := errors.Join(os.Mkdir(home+"/bin", 0o700), os.WriteFile(home+"/bin/ssh", []byte(ssh), 0o700)); err != nil {
		t.Fatal(err)
	}
	depots := git.NewDepots(t.TempDir(), []string{"HOME=" + home, "PATH=" + home + "/bin:/usr/local/bin:/usr/bin:/bin"}, resolve.In(t.TempDir(), os.Getuid()))
	for text, want := range map[string]string{
		"https://plain.example/x.git": "plain.example:443 false",
		"https://outer.example/x.git": "inner.example:443 false",
		"https://far.example:444/x":   "far.example:444 false", // another port is another server
		"https://far.example/x":       "far.example:443 true",
		"git@plain.example:x":         "plain.example:22 false",
		"work:acme/x":                 "git.inner.example:22 false",
		"ssh://git@work:2222/x":       "git.inner.example:2222 false",
		"jumped:x":                    "jumped:22 true",
		"git://plain.example/x":       "plain.example:9418 false",
	} {
		r, err := git.ParseRemote(text)
		if err != nil {
			t.Fatal(err)
		}
		at, between, err := depots.Reach(t.Context(), r)
		if got := fmt.Sprint(at, " ", between); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

// FuzzParseRemote: what is read once is read the same again, and is no option.
func FuzzParseRemote(f *testing.F) {
	for _, text := range []string{"https://git.example/x.git", "git@git.example:x", "ssh://u@[::1]:22/x", "/srv/x", "ext::sh", "ps:/", "https://h//", "h:x//"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := git.ParseRemote(text)
		if err != nil {
			return
		}
		if again, err := git.ParseRemote(r.URL); err != nil || again != r {
			t.Fatalf("%q: %q is read as %q, %v", text, r.URL, again.URL, err)
		}
		if strings.HasPrefix(r.URL, "-") || strings.ContainsAny(r.URL, " \n\x00'\"") || strings.HasPrefix(r.URL, "ext::") {
			t.Fatalf("%q became %q", text, r.URL)
		}
	})
}
