package sessionctx

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"cloister/approval"
	"cloister/egress/verdict"
	"cloister/internal/reading"
)

// ShownRequest is what a person looks at of a request: the whole of its line, the fields
// that change what a server does with it, and the size and digest of its body. An error
// says why the body cannot be looked at.
func ShownRequest(method, path string, h *verdict.HTTP) ([]approval.Detail, error) {
	out := []approval.Detail{{Label: "request", Text: method + " " + path}}
	if h != nil && h.Query != "" {
		out = append(out, approval.Detail{Label: fmt.Sprintf("query of %d bytes", len(h.Query)), Text: h.Query})
	}
	if h == nil || h.Header == nil {
		return out, nil
	}
	for name, value := range h.Header {
		switch at := strings.ToLower(name); {
		case slices.Contains(telling, at), strings.Contains(at, "override"), strings.Contains(at, "copy-source"),
			strings.HasPrefix(at, "x-original-"), strings.HasPrefix(at, "x-rewrite-"):
			out = append(out, approval.Detail{Label: "header " + name, Text: value})
		}
	}
	if h.Look == nil {
		return append(out, approval.Detail{Label: "body", Text: "none"}), nil
	}
	b, err := h.Look()
	if err != nil {
		return nil, err
	}
	out = append(out, approval.Detail{Label: "body", Text: shownBody(&b)})
	for _, f := range b.Trailer {
		out = append(out, approval.Detail{Label: "field behind the body " + f[0], Text: f[1]})
	}
	return out, nil
}

// shownBody is what is known of a body before it is sent.
func shownBody(b *reading.Beginning) string {
	digest := "sha256:" + hex.EncodeToString(b.Sum[:])
	if b.Whole {
		return fmt.Sprintf("%d bytes, %s", b.Size, digest)
	}
	why, declared := "more than 64 KiB", "no length is declared"
	if b.Late {
		why = "not all of it is here after two seconds"
	}
	if b.Declared >= 0 {
		declared = fmt.Sprintf("%d bytes are declared", b.Declared)
	}
	return fmt.Sprintf("%s: the first %d bytes have %s; %s. The rest, and fields behind it, are sent after the "+
		"answer, and no answer is bound to them", why, b.Size, digest, declared)
}

// telling are the header fields that change what a server does with a request.
var telling = []string{
	"content-type", "content-encoding", "transfer-encoding", "destination", "new-uri", "overwrite", "depth", "range",
	"upgrade", "expect", "if-match",
}

// Size is how many bytes a person would have to look at.
func Size(details []approval.Detail) int {
	n := 0
	for _, d := range details {
		n += len(d.Label) + len(d.Text)
	}
	return n
}

// DigestShown is of everything that a question shows.
func DigestShown(a *approval.Ask) string {
	sum := sha256.New()
	for _, d := range a.Details {
		fmt.Fprintf(sum, "%d %s%d %s", len(d.Label), d.Label, len(d.Text), d.Text)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
