package bucket_test

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/audit"
	"cloister/audit/bucket"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// store is a bucket that a test can change behind the back of who wrote to it. script/bucket runs
// the same tests on a real one.
type store struct {
	mu      sync.Mutex
	objects map[string][]byte
	full    bool
}

type listed struct {
	Key  string
	Size int
	ETag string
}

func etag(text []byte) string {
	sum := md5.Sum(text)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
	}
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case name != "records":
		refuse(http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodPut && s.full:
		refuse(http.StatusInsufficientStorage, "XMinioStorageFull")
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if _, there := s.objects[key]; there && r.Header.Get("If-None-Match") == "*" {
			refuse(http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		s.objects[key] = body
		w.Header().Set("ETag", etag(body))
	case r.URL.Query().Get("list-type") == "2":
		var out struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			Contents []listed
		}
		for _, k := range slices.Sorted(maps.Keys(s.objects)) {
			if strings.HasPrefix(k, r.URL.Query().Get("prefix")) {
				out.Contents = append(out.Contents, listed{k, len(s.objects[k]), etag(s.objects[k])})
			}
		}
		_ = xml.NewEncoder(w).Encode(out)
	case r.URL.Query().Has("location"):
		fmt.Fprint(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`)
	default:
		text, ok := s.objects[key]
		if !ok {
			refuse(http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", etag(text))
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = w.Write(text)
	}
}

// world is a record with its bucket.
type world struct {
	t     *testing.T
	store *store
	copy  *bucket.Copy
	log   *audit.Log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: &store{objects: map[string][]byte{}}}
	server := httptest.NewTLSServer(w.store)
	t.Cleanup(server.Close)
	client, err := minio.New(strings.TrimPrefix(server.URL, "https://"), &minio.Options{
		Creds: credentials.NewStaticV4("a", "b", ""), Secure: true, Transport: server.Client().Transport, Region: "us-east-1", MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w.copy = &bucket.Copy{
		Client: client, Bucket: "records", Prefix: "host", Dir: filepath.Join(dir, "audit"), Ledger: filepath.Join(dir, "sent.json"),
	}
	if w.log, err = audit.Open(w.copy.Dir, audit.Options{SegmentBytes: 8 << 10}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.log.Close() })
	return w
}

// record writes so many events, and sends them.
func (w *world) record(n int) bucket.Sent {
	w.t.Helper()
	for range n {
		if err := w.log.Append(w.t.Context(), audit.Event{Kind: audit.NetConnect, Host: "a.test", Port: 443, Verdict: "allow"}); err != nil {
			w.t.Fatal(err)
		}
	}
	sent, err := w.copy.Ship(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return sent
}

func (w *world) fetch(anchors ...audit.Anchor) (audit.Report, error) {
	w.t.Helper()
	return w.copy.Fetch(w.t.Context(), filepath.Join(w.t.TempDir(), "copy"), anchors...)
}

func TestThereAndBack(t *testing.T) {
	w := newWorld(t)
	first := w.record(100)
	if again := w.record(0); again.Pieces != 0 || again.Record != first.Record {
		t.Errorf("nothing new: %+v after %+v", again, first)
	}
	second := w.record(50)
	report, err := w.fetch()
	if err != nil || report.Records != second.Record || report.Segments < 2 || len(report.Outside) != 3 {
		t.Fatalf("%v, %+v", err, report)
	}
	// A run that was killed before it noted what it had sent: the next one sends more of the same.
	before, err := os.ReadFile(w.copy.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	w.record(3)
	if err := os.WriteFile(w.copy.Ledger, before, 0o600); err != nil {
		t.Fatal(err)
	}
	third := w.record(3)
	if report, err := w.fetch(); err != nil || report.Records != third.Record {
		t.Errorf("after a run that was killed: %v, %+v", err, report)
	}
	// A machine that noted nothing has the keys alone: the bucket's own heads say how far it must reach.
	w.copy.Ledger += ".none"
	if report, err := w.fetch(); err != nil || report.Records != third.Record {
		t.Errorf("without a note: %v, %+v", err, report)
	}
	for key := range w.store.objects {
		if text := string(w.store.objects[key]); strings.Contains(text, `"secret"`) {
			t.Errorf("%s has a key", key)
		}
	}
}

// keysOf are the objects of a kind, the newest last.
func (w *world) keysOf(kind string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(w.store.objects)), func(k string) bool { return !strings.HasPrefix(k, "host/"+kind+"/") })
}

func last[T any](list []T) T { return list[len(list)-1] }

func TestHostileBucket(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *world)
		want string
	}{
		"rolled back whole": {func(w *world) {
			then := maps.Clone(w.store.objects)
			w.record(40)
			w.store.objects = then
		}, "the record ends before"},
		"its end and its heads cut off": {func(w *world) {
			delete(w.store.objects, last(w.keysOf("segments")))
			for _, k := range w.keysOf("heads") {
				delete(w.store.objects, k)
			}
		}, "the record ends before"},
		"a piece in the middle gone": {func(w *world) { delete(w.store.objects, w.keysOf("segments")[1]) }, "missing in the bucket|does not continue|stands here"},
		"a record edited": {func(w *world) {
			k := w.keysOf("segments")[1]
			w.store.objects[k] = []byte(strings.Replace(string(w.store.objects[k]), `"allow"`, `"deny" `, 1))
		}, "the hash does not fit"},
		"a head forged": {func(w *world) {
			k := last(w.keysOf("heads"))
			w.store.objects[k] = []byte(strings.Replace(string(w.store.objects[k]), `"seq":`, `"seq":1`, 1))
		}, "is not the guardian's"},
		"a head that was never sealed": {func(w *world) {
			w.store.objects["host/heads/1.json"] = []byte(`{"v":1,"seq":1,"hash":"` + strings.Repeat("0", 64) + `"}`)
		}, "is not the guardian's"},
		"a head that is none":   {func(w *world) { w.store.objects["host/heads/x"] = []byte("\x1b[2J") }, "is no head"},
		"a head without an end": {func(w *world) { w.store.objects["host/heads/x"] = make([]byte, 1<<20) }, "larger than it can be"},
		"a name that leaves the folder": {func(w *world) {
			w.store.objects["host/segments/../../x/000000000000000-000000000000001"] = []byte("x")
		}, "no piece of a record"},
		"a piece that says it is vast": {func(w *world) {
			w.store.objects["host/segments/audit-000009.jsonl/000000000000000-999999999999999"] = []byte("x")
		}, "no piece of a record"},
		"a piece shorter than its name": {func(w *world) {
			k := w.keysOf("segments")[0]
			w.store.objects[k] = w.store.objects[k][:10]
		}, "it is cut"},
		"the record of another": {func(w *world) {
			other := newWorld(w.t)
			other.record(200)
			w.store.objects = other.store.objects
		}, "is not the guardian's"},
		"empty": {func(w *world) { w.store.objects = map[string][]byte{} }, "the record ends before"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.record(60)
			w.record(1)
			if _, err := w.fetch(); err != nil {
				t.Fatalf("the control: %v", err)
			}
			c.do(w)
			_, err := w.fetch()
			if err == nil || !slices.ContainsFunc(strings.Split(c.want, "|"), func(s string) bool { return strings.Contains(err.Error(), s) }) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("it steers a terminal: %q", err)
			}
		})
	}
}

// What a bucket refuses is not noted as sent, and is sent by the next run; another object in the place of one is
// an error, and no record that was changed here is sent.
func TestWhatIsNotSent(t *testing.T) {
	w := newWorld(t)
	w.store.full = true
	if err := w.log.Append(t.Context(), audit.Event{Kind: audit.PolicyLoad}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.copy.Ship(t.Context()); err == nil {
		t.Error("a full bucket took it")
	}
	if _, err := os.Stat(w.copy.Ledger); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is noted: %v", err)
	}
	w.store.full = false
	if sent := w.record(0); sent.Record == 0 || sent.Pieces != 1 {
		t.Errorf("the next run: %+v", sent)
	}
	k := last(w.keysOf("segments"))
	w.store.objects[k] = append([]byte("x"), w.store.objects[k][1:]...)
	if err := os.Remove(w.copy.Ledger); err != nil {
		t.Fatal(err)
	}
	if _, err := w.copy.Ship(t.Context()); err == nil || !strings.Contains(err.Error(), "another object of that name") {
		t.Errorf("another object: %v", err)
	}
	if err := w.log.Close(); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(w.copy.Dir, "audit-000001.jsonl")
	text, err := os.ReadFile(segment)
	if err == nil {
		err = os.WriteFile(segment, []byte(strings.Replace(string(text), "policy.load", "policy.laad", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.copy.Ship(t.Context())
	if _, bad := errors.AsType[*audit.BadRecord](err); !bad {
		t.Errorf("a record that was changed: %v", err)
	}
}
