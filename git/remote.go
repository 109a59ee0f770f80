package git

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/authority"
)

// Remote is a repository elsewhere, in one spelling.
type Remote struct {
	URL    string
	Scheme string              // https ssh http git file
	Path   string              // of a file remote: the folder
	Near   bool                // its host is this machine, its link or a cloud's metadata by the name alone
	At     authority.Authority // of all but a file remote

	project bool // it is a session's own project
}

// metadata are addresses of clouds' services for machines, beside link-local ones.
var metadata = []string{"100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254", "metadata.google.internal"}

// near reports whether a host is no place for repositories unless a person wrote so.
func near(a authority.Authority) bool {
	if ip, ok := a.Addr(); ok {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.Is4() && ip.As4()[0] == 0 ||
			slices.Contains(metadata, ip.String())
	}
	return a.Host() == "localhost" || strings.HasSuffix(a.Host(), ".localhost") || slices.Contains(metadata, a.Host())
}

// ports are what a URL of each scheme leaves out.
var ports = map[string]uint16{"https": 443, "http": 80, "ssh": 22, "git": 9418}

// ParseRemote reads the URL of a repository as git writes them: a URL, HOST:PATH,
// or an absolute path. Nothing that git would read as an option, as a transport
// of another kind or as a password gets through.
func ParseRemote(text string) (Remote, error) {
	bad := func(why string) (Remote, error) { return Remote{}, fmt.Errorf("remote %q: %s", text, why) }
	if text == "" || len(text) > 2048 {
		return bad("its length is that of no URL")
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\\\"'`<>^{}|", c) >= 0 {
			return bad("it holds a byte that no URL has")
		}
	}
	switch {
	case strings.HasPrefix(text, "-"):
		return bad("it would be an option")
	case strings.HasPrefix(text, "/"):
		return fileRemote(text, text)
	case strings.Contains(text, "://"):
		return urlRemote(text)
	case strings.Contains(text, "::"):
		return bad("it names a program to fetch with")
	}
	return scpRemote(text)
}

// Secure reports whether what is carried can be neither read nor changed on its way.
func (r Remote) Secure() bool { return r.Scheme == "https" || r.Scheme == "ssh" }

// protocols are those that git may use for it: the person's own configuration
// may rewrite one secure way into the other.
func (r Remote) protocols() string {
	if r.Secure() {
		return "https:ssh"
	}
	return r.Scheme
}

func fileRemote(text, dir string) (Remote, error) {
	if dir != path.Clean(dir) || !strings.HasPrefix(dir, "/") || dir == "/" || strings.Contains(dir, "%") {
		return Remote{}, fmt.Errorf("remote %q: write a clean absolute path", text)
	}
	return Remote{URL: "file://" + dir, Scheme: "file", Path: dir}, nil
}

func urlRemote(text string) (Remote, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Remote{}, fmt.Errorf("remote %q: it is no URL", text)
	}
	port, known := ports[u.Scheme]
	switch {
	case u.Scheme == "file" && u.Host == "":
		return fileRemote(text, strings.TrimPrefix(text, "file://"))
	case !known:
		return Remote{}, fmt.Errorf("remote %q: %s is no way that git is let out", text, strconv.Quote(u.Scheme))
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery || strings.ContainsAny(text, "#?"):
		return Remote{}, fmt.Errorf("remote %q: a repository has no query and no fragment", text)
	case strings.Trim(u.Path, "/") == "" || strings.Contains(u.Path, "/../") || strings.HasSuffix(u.Path, "/.."):
		return Remote{}, fmt.Errorf("remote %q: it names no repository", text)
	}
	user, err := userOf(u)
	if err != nil {
		return Remote{}, fmt.Errorf("remote %q: %w", text, err)
	}
	a, err := authority.ParseHostPort(u.Host, port)
	if err != nil {
		return Remote{}, fmt.Errorf("remote %q: %w", text, err)
	}
	host := a.String()
	if a.Port() == port {
		host = strings.TrimSuffix(host, ":"+strconv.Itoa(int(port)))
	}
	return Remote{URL: u.Scheme + "://" + user + host + strings.TrimRight(u.EscapedPath(), "/"), Scheme: u.Scheme,
		Near: near(a), At: a}, nil
}

// userOf is the user of a URL with its @. A password would be shown and recorded.
func userOf(u *url.URL) (string, error) {
	if u.User == nil {
		return "", nil
	}
	if _, has := u.User.Password(); has {
		return "", fmt.Errorf("a password stands in it: the person's credential helper has them")
	}
	return checkUser(u.User.Username())
}

func checkUser(name string) (string, error) {
	plain := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+") == ""
	if name == "" || !plain || strings.HasPrefix(name, "-") {
		return "", fmt.Errorf("%q is no user", name)
	}
	return name + "@", nil
}

// scpRemote is [USER@]HOST:PATH, which is ssh.
func scpRemote(text string) (Remote, error) {
	host, dir, ok := strings.Cut(text, ":")
	dir = strings.TrimRight(dir, "/")
	if !ok || strings.Contains(host, "/") || dir == "" || strings.HasPrefix(dir, "-") || strings.HasPrefix(dir, ":") {
		return Remote{}, fmt.Errorf("remote %q: write https://HOST/PATH, USER@HOST:PATH or an absolute path", text)
	}
	user := ""
	if name, rest, has := strings.Cut(host, "@"); has {
		var err error
		if user, err = checkUser(name); err != nil {
			return Remote{}, fmt.Errorf("remote %q: %w", text, err)
		}
		host = rest
	}
	a, err := authority.Parse(host, 22)
	if err != nil {
		return Remote{}, fmt.Errorf("remote %q: %w", text, err)
	}
	return Remote{URL: user + a.Host() + ":" + dir, Scheme: "ssh", Near: near(a), At: a}, nil
}

// plainRef reports whether a name is one of a branch or tag, as git check-ref-format
// has them.
func plainRef(ref string) bool {
	rest, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok {
		rest, ok = strings.CutPrefix(ref, "refs/tags/")
	}
	if !ok || rest == "" || len(ref) > 250 || strings.HasPrefix(rest, "-") || strings.ContainsAny(rest, " ~^:?*[\\") ||
		strings.Contains(rest, "..") || strings.Contains(rest, "@{") || strings.HasSuffix(rest, ".") {
		return false
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	for _, c := range []byte(rest) {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
