package bucket_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cloister/audit"
	"cloister/audit/bucket"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// TestHangingBucket: a bucket that takes or gives nothing, or listings without an end, is an error.
func TestHangingBucket(t *testing.T) {
	const vast = 64 << 20
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		when func(*http.Request) bool
		do   http.HandlerFunc
		want string
	}{
		"a write": {func(r *http.Request) bool { return r.Method == http.MethodPut }, hang, "does not answer in time"},
		"a read": {func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/segments/") },
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", etag(nil))
				w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
				w.Header().Set("Content-Length", "100")
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				hang(w, r)
			}, "does not answer in time"},
		"a listing": {lists, hang, "does not answer in time"},
		"a listing of empty pages": {lists, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>true</IsTruncated>"+
				"<NextContinuationToken>x</NextContinuationToken></ListBucketResult>")
		}, "does not answer in time"},
		"a listing that is vast": {lists, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<ListBucketResult><!--")
			page := []byte(strings.Repeat("x", 1<<20))
			for n := 0; n < vast; n += len(page) {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
			fmt.Fprint(w, "--></ListBucketResult>")
		}, "answer is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.record(10)
			if _, err := w.fetch(); err != nil {
				t.Fatalf("the control: %v", err)
			}
			server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				if c.when(r) {
					_, _ = io.Copy(io.Discard, r.Body)
					c.do(out, r)
					return
				}
				w.store.ServeHTTP(out, r)
			}))
			t.Cleanup(server.Close)
			client, err := minio.New(strings.TrimPrefix(server.URL, "https://"), &minio.Options{
				Creds: credentials.NewStaticV4("a", "b", ""), Secure: true, Region: "us-east-1", MaxRetries: 1,
				Transport: bucket.Bounded(server.Client().Transport),
			})
			if err != nil {
				t.Fatal(err)
			}
			w.copy.Client = client
			if !strings.Contains(c.want, "long") {
				w.copy.Timeout = 300 * time.Millisecond
			}
			if name == "a write" {
				if err := w.log.Append(t.Context(), audit.Event{Kind: audit.PolicyLoad}); err != nil {
					t.Fatal(err)
				}
				_, err = w.copy.Ship(t.Context())
			} else {
				_, err = w.fetch()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func lists(r *http.Request) bool { return r.URL.Query().Get("list-type") == "2" }
