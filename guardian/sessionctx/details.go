package sessionctx

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"cloister/approval"
	"cloister/egress"
)

// ShownRequest is what a person looks at of a request: the whole of its line, and the
// fields that change what a server does with it.
func ShownRequest(method, path string, h *egress.HTTP) []approval.Detail {
	out := []approval.Detail{{Label: "request", Text: method + " " + path}}
	if h != nil && h.Query != "" {
		out = append(out, approval.Detail{Label: fmt.Sprintf("query of %d bytes", len(h.Query)), Text: h.Query})
	}
	if h == nil || h.Header == nil {
		return out
	}
	body := "of unknown length"
	for name, value := range h.Header {
		switch at := strings.ToLower(name); {
		case at == "content-length":
			body = "of " + value + " bytes"
		case slices.Contains(telling, at), strings.Contains(at, "override"), strings.Contains(at, "copy-source"),
			strings.HasPrefix(at, "x-original-"), strings.HasPrefix(at, "x-rewrite-"):
			out = append(out, approval.Detail{Label: "header " + name, Text: value})
		}
	}
	if method != http.MethodGet && method != http.MethodHead || body != "of unknown length" {
		out = append(out, approval.Detail{Label: "body", Text: body + "; it is sent after the answer, and no answer is bound to it"})
	}
	return out
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
