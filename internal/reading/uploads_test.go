package reading_test

import (
	"slices"
	"testing"

	"cloister/internal/reading"
)

// Which requests go on with a resumable upload, and which begin one.
func TestUploads(t *testing.T) {
	for _, tt := range []struct {
		text   string
		ids    []string
		starts bool
	}{
		{"PUT /upload/storage/v1/b/mine/o?uploadType=resumable&upload_id=a", []string{"a"}, true},
		{"PUT /mine/k?UPLOAD%5FID=a%2Fb&upload_id=c", []string{"a/b", "c"}, false},
		{"PUT /mine/k?uploadId=a", []string{"a"}, false},
		{"POST /mine/k?uploadId=a", nil, false},
		{"PUT /mine/k?partNumber=1&uploadId=a", nil, false},
		{"PUT /mine/k?partNumber=1&uploadId=a&upload_id=b", []string{"b"}, false},
		{"GET /mine/k?upload_id=a", nil, false},
		{"GET /mine/k?upload_id=a\nX-HTTP-Method-Override: PUT", []string{"a"}, false},
		{"PUT /mine/k\nX-Original-URL: /mine/k?upload_id=a", []string{"a"}, false},
		{"POST /upload/storage/v1/b/mine/o?uploadType=resumable&name=k", nil, true},
		{"POST /mine/k\nx-goog-resumable: start", nil, true},
		{"POST /upload/storage/v1/b/mine/o\nX_Goog_Upload_Protocol: resumable", nil, true},
		{"POST /mine/k", nil, false},
	} {
		r := request(t, gcsHost, tt.text)
		if ids := r.Uploads(); !slices.Equal(ids, tt.ids) || r.StartsUpload() != tt.starts {
			t.Errorf("%q: ids %q, starts %t", tt.text, ids, r.StartsUpload())
		}
	}
	r := request(t, gcsHost, "PUT /mine/k?upload_id=a")
	going := r.Continuing()
	if r.Leaves(reading.Unknown) != "" || going.Leaves(reading.Unknown) == "" {
		t.Error("a request that goes on with another's upload leaves no bucket")
	}
}
