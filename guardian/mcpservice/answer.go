package mcpservice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/mcp"
)

// down judges an answer.
func (r *route) down(ctx context.Context, m *verdict.Message) error {
	if coding := strings.Join(m.Header.Values("Content-Encoding"), ","); coding != "" && coding != "identity" {
		return r.refuse(ctx, http.StatusBadGateway, "the server's answer is compressed, so it cannot be judged")
	}
	kind, _, err := mime.ParseMediaType(strings.Join(m.Header.Values("Content-Type"), ","))
	switch {
	case m.Status == http.StatusSwitchingProtocols:
		return r.refuse(ctx, http.StatusBadGateway, "the server changes to a protocol that is no transport of MCP")
	case m.Length() == 0:
		return nil
	case err == nil && kind == "text/event-stream":
		stream := mcp.NewStream(ctx, r.gate(), m.Body(), mcp.NewHold(r.d.memory), r.endpoint)
		m.SetBody(&recordingReader{ctx, r, stream}, -1)
		return nil
	case err == nil && kind == "application/json":
	case m.Status >= 300:
		return nil // an error's page, which no client reads as a message
	default:
		return r.absent(ctx, m)
	}
	out := r.frame(ctx, m)
	defer out.end()
	text, err := mcp.ReadFrame(m.Body(), out.hold)
	if err != nil {
		return r.refusal(ctx, err)
	}
	if len(bytes.TrimSpace(text)) == 0 || m.Status >= 300 && !mcp.Speaks(text) {
		out.send(text)
		return nil
	}
	kept, err := r.gate().Down(ctx, text)
	if err != nil {
		return r.refusal(ctx, err)
	}
	out.send(kept)
	return nil
}

// absent lets an answer without a type pass if it is empty.
func (r *route) absent(ctx context.Context, m *verdict.Message) error {
	one := make([]byte, 1)
	if n, err := io.ReadFull(m.Body(), one); n == 0 && errors.Is(err, io.EOF) {
		m.SetBody(strings.NewReader(""), 0)
		return nil
	}
	return r.refuse(ctx, http.StatusBadGateway, "the server's answer is neither application/json nor text/event-stream")
}

// endpoint takes the path that a server of the older transport names.
func (r *route) endpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("an endpoint that cannot be read")
	}
	if u.IsAbs() || u.Host != "" {
		a, err := authority.ParseHostPort(u.Host, map[string]uint16{"https": 443, "http": 80}[u.Scheme])
		if err != nil || a != r.server.Authority {
			return fmt.Errorf("it names an endpoint on another host, %.100q", u.Host)
		}
	}
	at := u.EscapedPath()
	if !strings.HasPrefix(at, "/") {
		at = path.Join(path.Dir("/"+strings.TrimPrefix(r.path, "/")), at)
	}
	return r.d.learn(r.server.Authority, at, r.server.Name)
}

// recordingReader records why a stream was broken off.
type recordingReader struct {
	ctx context.Context
	r   *route
	in  io.Reader
}

func (t *recordingReader) Read(p []byte) (int, error) {
	n, err := t.in.Read(p)
	if refused, ok := errors.AsType[*mcp.Refused](err); ok {
		return n, errors.Join(err, t.r.record(t.ctx, refused.Verdict.Reason))
	}
	return n, err
}
