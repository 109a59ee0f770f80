//go:build differential

package egress_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/webdav"

	"cloister/internal/reading"
	"cloister/secret/sigv4"
)

// A store is a real server that keeps objects as files below a folder: what it obeyed is
// seen there.
type store struct {
	name    string
	serve   func(t *testing.T, tree string) (addr, version string)
	signed  bool // it has S3's interface, and takes signed requests only
	methods []string
}

var stores = []store{
	{name: "WebDAV: Apache mod_dav", serve: served(configured("apache2", "apache-dav.conf", "-X", "-f"), "apache2", "-v"), methods: davMethods},
	{name: "WebDAV: nginx", serve: served(configured("nginx", "nginx-dav.conf", "-c"), "nginx", "-v"), methods: davMethods},
	{name: "WebDAV: golang.org/x/net/webdav", serve: goDAV, methods: davMethods},
	{name: "S3: versitygw, POSIX files", serve: gateway, signed: true, methods: []string{"PUT", "PUT", "PUT", "POST", "DELETE", "GET"}},
}

var davMethods = []string{"COPY", "MOVE", "PUT", "DELETE", "MKCOL", "copy"}

// served starts a program with a configuration whose DIR is the folder above the tree.
func served(command func(*testing.T, string, int) *exec.Cmd, version ...string) func(*testing.T, string) (string, string) {
	return func(t *testing.T, tree string) (string, string) {
		p := peer{name: version[0], version: version, command: func(t *testing.T, _ string, port int) *exec.Cmd {
			return command(t, filepath.Dir(tree), port)
		}}
		return p.start(t)
	}
}

func goDAV(t *testing.T, tree string) (addr, version string) {
	s := httptest.NewServer(&webdav.Handler{FileSystem: webdav.Dir(tree), LockSystem: webdav.NewMemLS()})
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), "of go.mod"
}

// The access key of the S3 server.
const (
	storeKey    = "AKIADIFFERENTIAL0000"
	storeSecret = "differential-secret-0000000000000000000"
)

func gateway(t *testing.T, tree string) (addr, version string) {
	program := filepath.Join(os.Getenv("CLOISTER_DIFFERENTIAL"), "versitygw")
	text, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(text))
	}
	p := peer{name: "versitygw", version: []string{"echo", "versitygw: 1.8.0"}, command: func(t *testing.T, dir string, port int) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, "--port", "127.0.0.1:"+strconv.Itoa(port), "--access", storeKey, "--secret", storeSecret,
			"--iam-dir", dir, "posix", tree)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		return cmd
	}}
	addr, version = p.start(t)
	// It answers once it listens for requests, a moment later.
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		}
	}
	return addr, version
}

// contents are what the tree has before each trial.
var contents = map[string]string{
	"mine/a": "mine-a", "mine/k": "mine-k", "mine/dir/x": "mine-dir-x", "theirs/a": "theirs-a", "theirs/k": "theirs-k", "theirs/dir/x": "theirs-dir-x",
}

// fill makes the tree as it was, and nothing else.
func fill(t *testing.T, tree string) {
	t.Helper()
	if err := os.MkdirAll(tree, 0o777); err != nil {
		t.Fatal(err)
	}
	for name := range files(t, tree) {
		if _, is := contents[name]; !is {
			if err := os.RemoveAll(filepath.Join(tree, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range contents {
		at := filepath.Join(tree, name)
		if old, err := os.ReadFile(at); err == nil && string(old) == text {
			continue
		}
		if fi, err := os.Lstat(filepath.Dir(at)); err == nil && !fi.IsDir() {
			_ = os.Remove(filepath.Dir(at)) // a file in the place of a folder
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		_ = os.RemoveAll(at)
		if err := os.WriteFile(at, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		// Apache, started by root, writes as another user.
		for at := at; at != filepath.Dir(tree); at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// files are the objects and empty folders of a tree, without what servers keep of their own.
func files(t *testing.T, tree string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(tree, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(tree, at)
		switch {
		case err != nil || rel == ".":
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir():
			if list, err := os.ReadDir(at); err == nil && len(list) == 0 {
				out[rel] = "(folder)"
			}
			return nil
		}
		text, err := os.ReadFile(at)
		out[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An effect is what became of one object: written, with the contents of which object, or
// removed.
type effect struct{ name, from string }

// effects are what a request did.
func effects(before, after map[string]string) []effect {
	var out []effect
	for _, name := range slices.Sorted(maps.Keys(after)) {
		text := after[name]
		if before[name] == text {
			continue
		}
		from := ""
		for old, was := range contents {
			if was == text {
				from = old
			}
		}
		out = append(out, effect{name, from})
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, is := after[name]; !is && !strings.HasPrefix(before[name], "(") {
			out = append(out, effect{name, ""})
		}
	}
	return out
}

// unseen is why an effect is in no reading of the request; empty where it is.
func unseen(e effect, h *reading.Request, body string) string {
	var writes, reads []string
	all := []reading.Request{*h}
	others, err := h.Others()
	if err != nil {
		return "" // refused
	}
	for i := range others {
		all = append(all, others[i].As(h))
	}
	for i := range all {
		if all[i].BadPath != nil {
			return "" // every rule about paths refuses it
		}
		writes = append(writes, all[i].Path.String())
	}
	reads = append(reads, writes...)
	for _, o := range h.Objects() {
		if o.Bad != nil {
			return "" // policy and bindings refuse it
		}
		for _, n := range o.Names {
			if reads = append(reads, n.Path.String()); !o.Reads {
				writes = append(writes, n.Path.String())
			}
		}
	}
	if names := h.AllOf(reading.S3); len(names) > 0 && strings.Contains(body, "<Delete") {
		writes = append(writes, strings.TrimSuffix(h.Path.String(), "/"))
	}
	// A server may leave encoded slashes for its objects: that is spelling alone.
	e.name = strings.ReplaceAll(strings.ReplaceAll(e.name, "%2F", "/"), "%2f", "/")
	within := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(p string) bool {
			p, name := path.Clean("/"+p), path.Clean("/"+name)
			return p == name || strings.HasPrefix(name, p+"/")
		})
	}
	switch {
	case !within(writes, e.name):
		return fmt.Sprintf("wrote or removed %s, read as %q", e.name, writes)
	case e.from != "" && e.from != e.name && !within(reads, e.from):
		return fmt.Sprintf("read %s, read as %q", e.from, reads)
	}
	return ""
}

var (
	storeTargets = []string{
		"/mine/k", "/mine/new", "/mine/dir", "/mine/dir/", "/theirs/k", "/mine//k", "/mine/../theirs/k", "/mine/%2e%2e/theirs/k", "/mine/..%2ftheirs/k",
		"/mine%2fk", "/mine/./k", "/mine/k/", "/mine/%6b", "/mine/k;x=1", "/mine/new?x-amz-copy-source=theirs%2Fa", "/mine/new?x=1", "/mine", "/mine?delete",
		"http://web.test/mine/new", "http://other.test/mine/new", "/mine/new?_method=DELETE",
	}
	storeSources = []string{
		"/theirs/a", "theirs/a", "%2Ftheirs%2Fa", "theirs%2Fa", "//theirs/a", "/theirs//a", "/mine/../theirs/a", "/mine/%2e%2e/theirs/a", "mine/a",
		"/theirs/%61", "/theirs/a?versionId=null", "theirs/a%3FversionId=null", "/theirs/a ", "theirs/a#x", "/theirs/./a", "/theirs/dir/../a",
		"http://web.test/theirs/a", "http://WEB.TEST:80/theirs/k", "https://web.test/theirs/k", "http://other.test/theirs/k", "//web.test/theirs/k",
		"/theirs/k", "theirs/k", "/theirs%2fk", "/theirs/new", "/theirs/k?x", "/theirs/k#x", "/theirs/dir2", "/mine/./../theirs/k", "/theirs/%6b",
		"arn:aws:s3:::theirs/a", "/theirs\\k", "/theirs/k;x", "http://user@web.test/theirs/k", "HTTP://web.test/theirs/k", "*", "", "/",
	}
	storeFields = []string{
		"Overwrite: T", "Overwrite: F", "Depth: infinity", "Depth: 0", "x-amz-metadata-directive: REPLACE", "X-HTTP-Method-Override: DELETE",
		"X-HTTP-Method-Override: COPY", "X-Original-URL: /theirs/k", "X-Forwarded-Prefix: /theirs", "If: <http://web.test/theirs/k> (<DAV:no-lock>)",
		"Content-Location: /theirs/k", "x-amz-website-redirect-location: /theirs/k", "x-amz-copy-source-range: bytes=0-3",
	}
	storeNames = []string{
		"Destination", "destination", "DESTINATION", "X-Amz-Copy-Source", "x-amz-copy-source", "X_Amz_Copy_Source", "X-Amz-Rename-Source", "X-Copy-From",
		"X-Goog-Copy-Source", "X-Oss-Copy-Source", "X-Amz-Copy-Source-If-Match", "New-Uri",
	}
	storeBodies = []string{
		"", "", "", "data", "<Delete><Object><Key>k</Key></Object></Delete>", "<Delete><Object><Key>../theirs/k</Key></Object></Delete>",
		"--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n../theirs/new\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\ndata\r\n--x--\r\n",
	}
)

// storeTrials are each source and destination alone, and mixtures that are the same in
// every run.
func storeTrials(s *store, mixed int) []trial {
	var out []trial
	for _, target := range storeTargets {
		for _, method := range s.methods {
			out = append(out, trial{method: method, target: target, body: "data"})
		}
	}
	names := []string{"Destination"}
	if s.signed {
		names = []string{"X-Amz-Copy-Source", "x_amz_copy_source", "X-Amz-Rename-Source"}
	}
	for _, name := range names {
		for _, source := range storeSources {
			for _, method := range s.methods[:2] {
				out = append(out, trial{method: method, target: "/mine/new", fields: []string{name + ": " + source}},
					trial{method: method, target: "/mine/k", fields: []string{name + ": " + source}},
					trial{method: method, target: "/mine/k", fields: []string{name + ": /mine/new", name + ": " + source}})
			}
		}
	}
	r := rand.New(rand.NewPCG(16, 17))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	for range mixed {
		q := trial{method: pick(s.methods), target: pick(storeTargets), body: pick(storeBodies)}
		for range 1 + r.IntN(2) {
			q.fields = append(q.fields, pick(storeNames)+": "+pick(storeSources))
		}
		if r.IntN(2) == 0 {
			q.fields = append(q.fields, pick(storeFields))
		}
		if strings.HasPrefix(q.body, "--x") {
			q.fields = append(q.fields, "Content-Type: multipart/form-data; boundary=x")
		}
		out = append(out, q)
	}
	return out
}

// sign adds the signature of the store's key over the request as it is written.
func (q trial) sign() trial {
	now := time.Now().UTC()
	target, absolute := strings.CutPrefix(q.target, "http://")
	if absolute {
		_, target, _ = strings.Cut(target, "/")
		target = "/" + target
	} else {
		target = q.target
	}
	at, query, _ := strings.Cut(target, "?")
	fields := map[string][]string{"host": {"web.test"}, "x-amz-date": {now.Format(sigv4.TimeForm)}, "x-amz-content-sha256": {sigv4.Hash([]byte(q.body))}}
	for _, f := range q.fields {
		name, value, _ := strings.Cut(f, ":")
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") {
			fields[name] = append(fields[name], strings.TrimSpace(value))
		}
	}
	as := sigv4.Signature{KeyID: storeKey, Day: now.Format("20060102"), Region: "us-east-1", Service: "s3", Signed: slices.Sorted(maps.Keys(fields))}
	as.Sum = sigv4.Sum(sigv4.Request{
		Method: q.method, Path: at, Query: query, Time: fields["x-amz-date"][0], Payload: fields["x-amz-content-sha256"][0],
		Header: func(name string) []string { return fields[name] },
	}, as, sigv4.SpellingOf("s3"), storeSecret)
	q.fields = append(slices.Clone(q.fields), "X-Amz-Date: "+fields["x-amz-date"][0], "X-Amz-Content-Sha256: "+fields["x-amz-content-sha256"][0],
		fmt.Sprintf("Authorization: %s Credential=%s/%s/us-east-1/s3/aws4_request, SignedHeaders=%s, Signature=%s",
			sigv4.Algorithm, storeKey, as.Day, strings.Join(as.Signed, ";"), as.Sum))
	return q
}

func (s *store) try(t *testing.T, report io.Writer) {
	tree := filepath.Join(t.TempDir(), "tree")
	fill(t, tree)
	for _, above := range []string{filepath.Dir(tree), filepath.Dir(filepath.Dir(tree))} {
		if err := os.Chmod(above, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	addr, version := s.serve(t, tree)
	w := newWorld(t, map[string]string{"web.test": addr})
	v := allow()
	v.Inspect = true
	w.set("web.test", v)
	var sent, refused, none, done, elsewhere, wrong int
	for _, q := range storeTrials(s, 1200) {
		fill(t, tree)
		before := files(t, tree)
		if sent++; s.signed {
			q = q.sign()
		}
		_, h := w.attempt(t, q)
		did := effects(before, files(t, tree))
		switch {
		case h == nil:
			if refused++; len(did) > 0 {
				t.Errorf("%q was refused, and did %v", q.String(), did)
			}
			continue
		case len(did) == 0:
			none++
			continue
		}
		done++
		if slices.ContainsFunc(did, func(e effect) bool {
			return strings.HasPrefix(e.name+e.from, "theirs") || strings.HasPrefix(e.from, "theirs")
		}) {
			elsewhere++
		}
		for _, e := range did {
			if why := unseen(e, h, q.body); why != "" {
				if wrong++; wrong <= 40 {
					t.Errorf("%q: %s", q.String(), why)
				}
			}
		}
	}
	if done < 100 || elsewhere < 20 {
		t.Errorf("only %d requests did something, %d with another's objects: the test proves nothing", done, elsewhere)
	}
	fmt.Fprintf(report, "| %s | %s | %d | %d | %d | %d | %d | %d |\n", s.name, version, sent, refused, none, done, elsewhere, wrong)
	t.Logf("%s (%s): %d sent, %d refused by the gate, %d did nothing, %d did something, %d with another's objects, %d unjudged",
		s.name, version, sent, refused, none, done, elsewhere, wrong)
}

// TestDifferentialStores holds that what a store of objects wrote, removed and copied is
// among the readings of the request, or that the gate refused it.
func TestDifferentialStores(t *testing.T) {
	if os.Getenv("CLOISTER_DIFFERENTIAL") == "" {
		t.Fatal("CLOISTER_DIFFERENTIAL names no folder with the servers: script/test differential")
	}
	var report bytes.Buffer
	for i := range stores {
		t.Run(stores[i].name, func(t *testing.T) { stores[i].try(t, &report) })
	}
	if out := os.Getenv("CLOISTER_DIFFERENTIAL_STORES"); out != "" {
		if err := os.WriteFile(out, report.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	}
}
