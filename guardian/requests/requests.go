// Package requests reads the bodies of requests to the guardian.
//
// The promise: a body that cannot be read is an error of the request, and never half a value; of
// a session it is also one that no honest shim sends. How long a body may be is bounded before it
// comes here.
//
// Most readers want [Read].
package requests

import (
	"encoding/json"
	"io"
	"net/http"

	"cloister/api"
)

// Read decodes the body of a request, which has to have one.
func Read[T any](r *http.Request) (T, error) { return read[T](r, false) }

// Optional decodes the body of a request; an empty one is the zero value.
func Optional[T any](r *http.Request) (T, error) { return read[T](r, true) }

func read[T any](r *http.Request, empty bool) (T, error) {
	var v, none T
	text, err := io.ReadAll(r.Body)
	if err == nil && (len(text) > 0 || !empty) {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		return none, api.BadRequest("read request: %v", err)
	}
	return v, nil
}
