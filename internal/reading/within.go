package reading

import (
	"errors"
	"strings"

	"cloister/internal/urlpath"
)

// Why a request has no single reading whose body or query holds what cannot be judged here.
var (
	errBatch  = errors.New("its body holds requests of their own")
	errFields = errors.New("its query holds header fields, which some servers read as if they were sent")
)

// holdsRequests tells of a type of bodies that are requests themselves: those of Google's
// and OData's batches, and what a part of them is. OData's in JSON is known by its path.
func holdsRequests(contentType string) bool {
	t := strings.ToLower(contentType)
	return strings.Contains(t, "multipart/mixed") || strings.Contains(t, "application/http")
}

// carriesFields tells of the key of a query whose value is a whole head, which Google's
// services read as if its fields had been sent (of gapi's requests without preflight).
func carriesFields(key string) bool { return strings.EqualFold(key, "$httpheaders") }

// addMethods adds the methods that the query of another path asks for.
func (r *Request) addMethods(says, query string) {
	for rest := query; rest != "" && len(r.found.methods) <= Most; {
		var key, value string
		if key, value, rest = nextPair(rest); isMethodKey(key) {
			r.add(method, says, key, unescaped(value))
		}
	}
}

// isBatch tells of OData's path for several requests in one (Microsoft Graph, Dynamics).
func isBatch(p urlpath.Path) bool {
	text := p.String()
	return strings.EqualFold(text[strings.LastIndexByte(text, '/')+1:], "$batch")
}

// anyMethod are the methods of the requests in a batch.
var anyMethod = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// inside adds the readings of requests whose paths, or fields, cannot be known here.
func (r *Request) inside(f *found) {
	for _, b := range f.batches {
		o := Other{Says: b.says, To: r.To, Method: r.Method, Query: r.Query, BadPath: errFields, changed: ofPath}
		if carriesFields(b.name) {
			r.others = append(r.others, o)
			continue
		}
		for _, m := range anyMethod {
			o.Method, o.BadPath = m, errBatch
			r.others = append(r.others, o)
		}
	}
	r.crowded = r.crowded || len(r.others) > 2*Most
}
