package reading

import "strings"

// Uploads are the ids of resumable uploads with which a request goes on, in any of its
// readings. Whoever has such an id writes to the bucket for which the upload was begun,
// whatever bucket the path names.
func (r *Request) Uploads() []string {
	ids := uploadsIn(nil, r.Method, r.Query)
	others, err := r.Others()
	if err != nil {
		return ids // it is refused for that
	}
	for i := range others {
		if o := &others[i]; o.Query != r.Query || o.Method != r.Method {
			ids = uploadsIn(ids, o.Method, o.Query)
		}
	}
	return ids
}

func uploadsIn(ids []string, method, query string) []string {
	if len(query) < len("uploadid=") || method == "GET" || method == "HEAD" || method == "OPTIONS" {
		return ids
	}
	parts := false
	for key := range pairs(query) {
		parts = parts || key == "partNumber"
	}
	for key, value := range pairs(query) {
		// The uploads by parts of S3's interface belong to the object in the path.
		if key == "uploadId" && (parts || method == "POST" || method == "DELETE") {
			continue
		}
		if strings.Trim(strings.ReplaceAll(strings.ToLower(unescaped(key)), "_", ""), "$ ") == "uploadid" {
			ids = append(ids, unescaped(value))
		}
	}
	return ids
}

// StartsUpload reports whether the answer to a request may name a resumable upload.
func (r *Request) StartsUpload() bool {
	if r.Method != "POST" && r.Method != "PUT" {
		return false
	}
	if strings.Contains(strings.ToLower(r.Query), "resumable") {
		return true
	}
	if r.Header == nil {
		return false
	}
	for name := range r.Header {
		if len(name) < len("x-goog-upload-") {
			continue
		}
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if name == "x-goog-resumable" || strings.HasPrefix(name, "x-goog-upload-") {
			return true
		}
	}
	return false
}

// Continuing is the request as one that goes on with an upload that was begun elsewhere,
// for Leaves. Whoever judges it otherwise than the request itself looks at Uploads.
func (r *Request) Continuing() Request {
	out := *r
	out.continues = "it goes on with a resumable upload that was begun elsewhere, perhaps for another bucket (upload_id)"
	return out
}
