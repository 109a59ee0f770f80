package inject

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloister/egress/verdict"
	"cloister/internal/budget"
	"cloister/secret/sigv4"
)

const (
	// maxHashed bounds a body that is read whole because its hash is signed and sent
	// in no header.
	maxHashed = 8 << 20
	// maxSkew is how far the time of a signature may lie from now, as at Amazon's.
	maxSkew = 15 * time.Minute
)

// fieldsOf are the values of a field: as the program wrote them, or as they are sent.
func fieldsOf(m *verdict.Message, name string, written bool) []string {
	values := m.Header.Values(name)
	switch {
	case name == "host" && (len(values) == 0 || !written):
		return []string{m.Host()}
	case name == "content-length" && m.Length() >= 0 && (len(values) == 0 || !written):
		return []string{strconv.FormatInt(m.Length(), 10)}
	}
	return values
}

// payload is the word for the body that is signed: what the header tells or, where
// there is none, its hash.
func (e *edit) payload(m *verdict.Message) (string, error) {
	values := m.Header.Values(sigv4.PayloadHeader)
	switch {
	case len(values) > 1:
		return "", &errUnsigned{"it has more than one header " + strings.ToLower(sigv4.PayloadHeader)}
	case len(values) == 0:
		return e.hashed(m)
	}
	switch word := values[0]; {
	case word == "UNSIGNED-PAYLOAD", word == "STREAMING-UNSIGNED-PAYLOAD-TRAILER":
		return word, nil
	case len(word) == 64 && strings.Trim(word, "0123456789abcdef") == "":
		return word, nil // the service holds the body to it
	default:
		return "", &errUnsigned{fmt.Sprintf("a body of the form %.60q is signed chunk by chunk; over TLS programs need "+
			"not: turn signing of payloads off", word)}
	}
}

// hashed reads the body whole, and gives its hash.
func (e *edit) hashed(m *verdict.Message) (string, error) {
	if m.Length() == 0 {
		return sigv4.Hash(nil), nil
	}
	held, err := e.s.bodies.Whole(e.ctx, m.Body(), maxHashed)
	switch {
	case errors.Is(err, budget.ErrFull):
		return "", tooMuch(http.StatusServiceUnavailable,
			"too many large bodies at once are signed without the header "+sigv4.PayloadHeader)
	case errors.Is(err, budget.ErrLong):
		return "", tooMuch(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("a body that is signed without the header %s holds at most %d bytes", sigv4.PayloadHeader, maxHashed))
	case err != nil:
		return "", err // the program's side broke
	}
	sum, n := sigv4.Hash(held.Bytes()), int64(len(held.Bytes()))
	m.SetBody(held, n)
	return sum, nil
}

func tooMuch(status int, why string) error {
	return &verdict.Refused{Status: status, Verdict: verdict.Answer{Effect: "deny", Reason: why}}
}
