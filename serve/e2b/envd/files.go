package envd

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"cloister/serve"
	"cloister/serve/e2b/answer"
	"cloister/serve/files"
)

// Bounds of uploads.
const (
	maxUpload   = 8 << 30
	maxFiles    = 1000
	maxKey      = 246  // bytes of a metadata key: an attribute's name less the prefix
	maxMetadata = 4096 // bytes of all metadata of one file
	metaPrefix  = "X-Metadata-"
	attrPrefix  = len("user.e2b.")
)

// SignedPath says that a request for a file carries a signature instead of the token.
func SignedPath(r *http.Request) bool {
	return r.URL.Path == "/files" && r.URL.Query().Get("signature") != ""
}

// allowed checks the signature of a request for a file, if it carries one.
func allowed(r *http.Request, s *serve.Sandbox, operation string) error {
	q := r.URL.Query()
	if !SignedPath(r) {
		return nil // the token was checked
	}
	text := q.Get("path") + ":" + operation + ":" + q.Get("username") + ":" + s.Record().Token
	until := q.Get("signature_expiration")
	if until != "" {
		text += ":" + until
	}
	sum := sha256.Sum256([]byte(text))
	if !answer.Same(q.Get("signature"), "v1_"+base64.RawStdEncoding.EncodeToString(sum[:])) {
		return answer.Error(http.StatusUnauthorized, "invalid signature")
	}
	if until == "" {
		return nil
	}
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil {
		return answer.Error(http.StatusUnauthorized, "invalid signature expiration")
	}
	if time.Now().Unix() >= end {
		return answer.Error(http.StatusUnauthorized, "signature is already expired")
	}
	return nil
}

// fileRequest checks a request for a file, and gives the sandbox's files.
func (d *Service) fileRequest(r *http.Request, operation string) (*files.Pool, error) {
	s := sandboxOf(r.Context())
	if err := allowed(r, s, operation); err != nil {
		return nil, err
	}
	if err := knownUser(r.URL.Query().Get("username")); err != nil {
		return nil, answer.Error(http.StatusUnauthorized, err.Error())
	}
	return s.Files()
}

func (d *Service) download(w http.ResponseWriter, r *http.Request) {
	if err := d.sendFile(w, r); err != nil {
		answer.Failed(d.log, w, r, sandboxOf(r.Context()).Tenant(), err)
	}
}

func (d *Service) sendFile(w http.ResponseWriter, r *http.Request) error {
	pool, err := d.fileRequest(r, "read")
	if err != nil {
		return err
	}
	packed, err := acceptsGzip(r)
	if err != nil {
		return err
	}
	at := resolve(r.URL.Query().Get("path"))
	e, content, err := pool.Read(r.Context(), at)
	if file, ok := errors.AsType[*files.Error](err); ok && file.Code == files.NotFound {
		return answer.Error(http.StatusNotFound, "path '"+at+"' does not exist")
	}
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": e.Name}))
	h.Set("Last-Modified", e.Modified.UTC().Format(http.TimeFormat))
	h.Set("Vary", "Accept-Encoding")
	rc := http.NewResponseController(w)
	if packed {
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(slow{w, rc})
		_, err = io.Copy(z, content)
		if err == nil {
			err = z.Close()
		}
	} else {
		h.Set("Content-Length", strconv.FormatInt(e.Size, 10))
		_, err = io.Copy(slow{w, rc}, content)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the answer has begun: only its end can say so
	}
	return nil
}

// slow bounds how long a client may take for each piece.
type slow struct {
	io.Writer
	rc *http.ResponseController
}

func (s slow) Write(p []byte) (int, error) {
	if err := s.rc.SetWriteDeadline(time.Now().Add(answer.Stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return s.Writer.Write(p)
}

// acceptsGzip says that a client wants the file packed. Browsers and fetch offer several
// codings with every request; only one that names gzip alone wants it.
func acceptsGzip(r *http.Request) (bool, error) {
	switch strings.TrimSpace(strings.ToLower(r.Header.Get("Accept-Encoding"))) {
	case "gzip":
		return true, nil
	case "identity;q=0":
		return false, answer.Error(http.StatusNotAcceptable, "no acceptable encoding found, supported: [identity, gzip]")
	}
	return false, nil
}

func (d *Service) upload(w http.ResponseWriter, r *http.Request) {
	list, err := d.takeFiles(w, r)
	if err != nil {
		answer.Failed(d.log, w, r, sandboxOf(r.Context()).Tenant(), err)
		return
	}
	answer.JSON(w, http.StatusOK, list)
}

// uploaded is one file that was written.
type uploaded struct {
	Name     string            `json:"name"`
	Path     string            `json:"path"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func (d *Service) takeFiles(w http.ResponseWriter, r *http.Request) ([]uploaded, error) {
	pool, err := d.fileRequest(r, "write")
	if err != nil {
		return nil, err
	}
	meta, err := metadataOf(r.Header)
	if err != nil {
		return nil, err
	}
	body, err := unpacked(w, r)
	if err != nil {
		return nil, err
	}
	store := func(at string, from io.Reader) (uploaded, error) {
		e, err := pool.Write(r.Context(), resolve(at), meta, from)
		if err != nil {
			return uploaded{}, tooLarge(err)
		}
		return uploaded{path.Base(e.Path), e.Path, "file", e.Metadata}, nil
	}
	to := r.URL.Query().Get("path")
	kind, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "application/octet-stream" {
		if to == "" {
			return nil, answer.Error(http.StatusBadRequest, "path is required for application/octet-stream")
		}
		f, err := store(to, body)
		return []uploaded{f}, err
	}
	if kind != "multipart/form-data" || parameters["boundary"] == "" {
		return nil, answer.Error(http.StatusBadRequest, "want multipart/form-data or application/octet-stream")
	}
	return parts(multipart.NewReader(body, parameters["boundary"]), to, store)
}

// parts stores the files of a form.
func parts(form *multipart.Reader, to string, store func(string, io.Reader) (uploaded, error)) ([]uploaded, error) {
	out := []uploaded{}
	seen := map[string]bool{}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, answer.Error(http.StatusBadRequest, "read the form: "+err.Error())
		}
		if part.FormName() != "file" {
			continue
		}
		at := to
		if at == "" {
			at = fileName(part.Header.Get("Content-Disposition"))
		}
		if at == "" {
			return nil, answer.Error(http.StatusBadRequest, "a file of the form has no name, and the request no path")
		}
		if at = resolve(at); seen[at] {
			return nil, answer.Error(http.StatusBadRequest, "you cannot upload multiple files to the same path '"+at+"'")
		}
		if len(out) == maxFiles {
			return nil, answer.Error(http.StatusBadRequest, fmt.Sprintf("a form may hold %d files", maxFiles))
		}
		seen[at] = true
		f, err := store(at, part)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
}

// fileName reads the whole path that a client puts in a part's name; the standard library
// gives the last element alone.
func fileName(disposition string) string {
	_, parameters, err := mime.ParseMediaType(disposition)
	if err != nil {
		return ""
	}
	return parameters["filename"]
}

// unpacked is the body, bounded, and unpacked where it came packed.
func unpacked(w http.ResponseWriter, r *http.Request) (io.Reader, error) {
	body := &patient{http.MaxBytesReader(w, r.Body, maxUpload), http.NewResponseController(w)}
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return body, nil
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, answer.Error(http.StatusBadRequest, "unpack the request: "+err.Error())
		}
		return &bounded{z, maxUpload}, nil
	}
	return nil, answer.Error(http.StatusUnsupportedMediaType, "Content-Encoding: want gzip or none")
}

// patient bounds how long a client may take for each piece of a body.
type patient struct {
	io.Reader
	rc *http.ResponseController
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.rc.SetReadDeadline(time.Now().Add(answer.Stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := p.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		_ = p.rc.SetReadDeadline(time.Time{}) // it would end the context of the request
	}
	return n, err
}

// errLarge is the error of what is too much, packed or not.
var errLarge = answer.Error(http.StatusRequestEntityTooLarge, fmt.Sprintf("an upload may have %d bytes",
	int64(maxUpload)))

// bounded gives an error, not an end, after so many bytes.
type bounded struct {
	io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errLarge
	}
	return n, err
}

func tooLarge(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errLarge
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, io.ErrUnexpectedEOF) {
		return answer.Error(http.StatusBadRequest, "the upload was cut off")
	}
	return err
}

// metadataOf reads the headers that become a file's metadata.
func metadataOf(h http.Header) (map[string]string, error) {
	var out map[string]string
	size := 0
	for name, values := range h {
		key, ok := strings.CutPrefix(name, metaPrefix)
		if !ok {
			continue
		}
		key = strings.ToLower(key)
		if key == "" || len(key) > maxKey || !printable(key) || !printable(values[0]) {
			return nil, answer.Error(http.StatusBadRequest, "metadata: want printable ASCII, and a name of at most 246 bytes")
		}
		if size += attrPrefix + len(key) + len(values[0]); size > maxMetadata {
			return nil, answer.Error(http.StatusBadRequest, "metadata: more than 4096 bytes")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = values[0]
	}
	return out, nil
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}
