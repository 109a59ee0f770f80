package egress

import (
	"fmt"
	"strings"
)

// gitWords are a refusal in git's own protocol, for a request of that content type:
// of an answer with another status than 200 git shows its user the number alone.
// What fetches is told by an error line, what pushes by the third side band
// (gitprotocol-common, gitprotocol-pack). An empty kind is no request of git's.
func (r refusal) gitWords(contentType string) (kind string, body []byte) {
	service, ok := strings.CutPrefix(contentType, "application/x-git-")
	if service, ok = strings.CutSuffix(service, "-request"); !ok {
		return "", nil
	}
	text := strings.TrimSpace(r.text())
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
