// Package objectstest is an S3 server for tests, whose objects a test changes behind its users' backs.
//
// It knows what serve/objects/s3 asks for and no more, and checks no signature: script/test bucket runs the same on a
// real server.
//
// Most readers want [New].
package objectstest

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Name is that of its one bucket.
const Name = "snapshots"

// Server is one on the loopback.
type Server struct {
	URL string
	CA  []byte // the authority of its certificate, as PEM
	web *httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	before  func(http.ResponseWriter, *http.Request) bool
}

// New starts one.
func New() *Server {
	s := &Server{objects: map[string][]byte{}}
	s.web = httptest.NewTLSServer(s)
	s.URL = s.web.URL
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.web.Certificate().Raw})
	return s
}

// Transport is what reaches it.
func (s *Server) Transport() http.RoundTripper { return s.web.Client().Transport }

// Close ends it, with what it has under way.
func (s *Server) Close() {
	s.web.CloseClientConnections()
	s.web.Close()
}

// Before has f be asked before each request; true says that it has answered.
func (s *Server) Before(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// Objects are those that there are, by name.
func (s *Server) Objects() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// Set replaces them.
func (s *Server) Set(all map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = maps.Clone(all)
}

func etag(text []byte) string {
	sum := md5.Sum(text)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// Refuse answers with an error of S3.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
}

// ServeHTTP answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if name != Name {
		Refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	switch {
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.objects[key] = body
		s.mu.Unlock()
		w.Header().Set("ETag", etag(body))
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.objects, key)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Query().Get("list-type") == "2":
		s.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("delimiter"))
	case r.URL.Query().Has("location"):
		fmt.Fprint(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`)
	default:
		text, ok := s.Objects()[key]
		if !ok {
			Refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", etag(text))
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = w.Write(text) // the client has gone
	}
}

type listed struct {
	Key  string
	Size int
	ETag string
}

type below struct{ Prefix string }

func (s *Server) list(w http.ResponseWriter, prefix, delimiter string) {
	var out struct {
		XMLName        xml.Name `xml:"ListBucketResult"`
		Contents       []listed
		CommonPrefixes []below
	}
	all := s.Objects()
	for _, k := range slices.Sorted(maps.Keys(all)) {
		rest, ok := strings.CutPrefix(k, prefix)
		if !ok {
			continue
		}
		if first, _, deeper := strings.Cut(rest, "/"); deeper && delimiter == "/" {
			folder := below{prefix + first + "/"}
			if !slices.Contains(out.CommonPrefixes, folder) {
				out.CommonPrefixes = append(out.CommonPrefixes, folder)
			}
			continue
		}
		out.Contents = append(out.Contents, listed{k, len(all[k]), etag(all[k])})
	}
	_ = xml.NewEncoder(w).Encode(out) // the client has gone
}
