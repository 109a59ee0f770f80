// Package errtext spells a refusal as programs show it to their users.
//
// Promise: each function gives bytes of one protocol for a text that someone else
// wrote, whatever stands in it. It knows no verdicts and writes to no one.
//
// Most readers want Git, GRPCStatus and WantsText.
package errtext

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The codes of gRPC that are used here.
const (
	GRPCCanceled  = 1
	GRPCDeadline  = 4
	grpcDenied    = 7
	GRPCExhausted = 8
	GRPCInternal  = 13
	GRPCDown      = 14
)

// GRPCStatus is the code for what an HTTP client would learn from a status.
func GRPCStatus(status int) int {
	switch status {
	case http.StatusForbidden:
		return grpcDenied
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		return GRPCExhausted
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return GRPCDown
	}
	return GRPCInternal
}

// GRPCText encodes a message (gRPC over HTTP2, Status-Message).
func GRPCText(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '%' {
			const digits = "0123456789ABCDEF"
			b.WriteString("%" + digits[c>>4:c>>4+1] + digits[c&15:c&15+1])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// GRPCTimeout reads how long a call may take (gRPC over HTTP2, Timeout).
func GRPCTimeout(text string) (d time.Duration, ok bool) {
	if text == "" {
		return 0, false
	}
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond,
		'u': time.Microsecond, 'n': time.Nanosecond}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 32)
	unit, ok := units[text[len(text)-1]]
	return time.Duration(n) * unit, err == nil && ok
}

// Git is a text in git's own protocol, for a request of that content type: of an
// answer with another status than 200 git shows its user the number alone. A
// fetch gets it as an error line, a push by the third side band
// (gitprotocol-common, gitprotocol-pack). An empty kind is no request of git's.
func Git(contentType, text string) (kind string, body []byte) {
	rest, isGit := strings.CutPrefix(contentType, "application/x-git-")
	service, asks := strings.CutSuffix(rest, "-request")
	if !isGit || !asks {
		return "", nil
	}
	const most = 60_000 // a packet holds 65,516 bytes
	if text = strings.TrimSpace(text); len(text) > most {
		text = text[:most]
	}
	switch service {
	case "upload-pack":
		body = fmt.Appendf(nil, "%04xERR %s\n", len(text)+9, text)
	case "receive-pack":
		body = fmt.Appendf(nil, "%04x\x03%s\n0000", len(text)+6, text)
	default:
		return "", nil
	}
	return "application/x-git-" + service + "-result", body
}

// WantsText reports whether a program that names itself so and accepts these types would
// rather show text than parse JSON.
func WantsText(accept []string, agent string) bool {
	if strings.HasPrefix(agent, "git/") { // it shows its user text, and nothing else
		return true
	}
	text := false
	for _, t := range accept {
		t, _, _ = strings.Cut(t, ";")
		switch strings.TrimSpace(t) {
		case "application/json", "text/event-stream", "application/*":
			return false
		case "text/plain", "text/html", "text/*":
			text = true
		}
	}
	return text
}

// Alert is a fatal TLS alert (RFC 8446 6) for what an HTTP client would receive as a
// status: access_denied where we refuse, internal_error where the server could not be
// reached. TLS libraries print these names.
func Alert(status int) []byte {
	const accessDenied, internalError = 49, 80
	if status >= http.StatusInternalServerError {
		return []byte{21, 3, 3, 0, 2, 2, internalError}
	}
	return []byte{21, 3, 3, 0, 2, 2, accessDenied}
}

// RetryAfter is a wait in the words of HTTP, empty for none.
func RetryAfter(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// Enough is a bound in the place of most that lets so many bytes through.
func Enough(most, need int64) int64 {
	for ok := true; ok && most < math.MaxInt64/2; ok = most < need {
		most *= 2
	}
	return most
}
