package escape

import (
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bound are names that a case with secrets may bind one to, or must not; the
// last is an MCP server. All are served where inspected names are.
func Bound() []string { return []string{"bound.test", "unbound.test", "tools.test"} }

// Untrusted are names with certificates that no client may take: of another
// name, of yesterday, and of nobody.
func Untrusted() []string { return []string{"wrongname.test", "expired.test", "selfsigned.test"} }

// untrusted makes the certificates of names that have bad ones.
func untrusted(signer tls.Certificate) (map[string]*tls.Certificate, error) {
	parent, err := x509.ParseCertificate(signer.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	out := map[string]*tls.Certificate{}
	now := time.Now()
	for name, ends := range map[string]time.Time{"expired.test": now.Add(-time.Hour), "selfsigned.test": now.Add(time.Hour)} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
			NotBefore: now.Add(-2 * time.Hour), NotAfter: ends, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		by, with := parent, signer.PrivateKey
		if name == "selfsigned.test" {
			by, with = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, by, key.Public(), with)
		if err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
		out[name] = &tls.Certificate{Certificate: [][]byte{der, signer.Certificate[0]}, PrivateKey: key}
	}
	return out, nil
}

// reflect answers with what the request had for a secret, in the way that the
// path names.
func reflect(w http.ResponseWriter, r *http.Request, way string) {
	value := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	h := w.Header()
	switch way {
	case "body":
		fmt.Fprint(w, "you said ", value)
	case "header":
		h.Set("X-Said", value)
	case "error":
		http.Error(w, "no such key: "+value, http.StatusUnauthorized)
	case "gzip":
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, "you said ", value)
		_ = z.Close() // who asked may be gone
	case "pieces":
		for _, b := range []byte("you said " + value) {
			_, _ = w.Write([]byte{b})
			_ = http.NewResponseController(w).Flush()
		}
	case "base64":
		fmt.Fprint(w, "you said ", base64.StdEncoding.EncodeToString([]byte("user:"+value)))
	case "hex":
		fmt.Fprint(w, "you said ", hex.EncodeToString([]byte(value)))
	case "percent":
		for _, b := range []byte(value) {
			fmt.Fprintf(w, "%%%02X", b)
		}
	case "query":
		fmt.Fprint(w, "https://elsewhere.test/?key=", url.QueryEscape(value))
	case "json":
		_ = json.NewEncoder(w).Encode(map[string]string{"said": "\"" + value + "\""}) // who asked may be gone
	case "trailer":
		h.Set("Trailer", "X-Said")
		fmt.Fprint(w, "said")
		h.Set("X-Said", value)
	case "cookie":
		http.SetCookie(w, &http.Cookie{Name: "said", Value: value})
	case "location":
		http.Redirect(w, r, "https://unbound.test/ok/there?key="+value, http.StatusFound)
	default:
		echo(w, r, way, value)
	}
}

// echo is reflect outside of bodies, in heads that no library would write.
func echo(w http.ResponseWriter, r *http.Request, way, value string) {
	end := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	text := map[string]string{
		"phrase":       "HTTP/1.1 200 " + value + "\r\nContent-Length: 2\r\n\r\nok",
		"error phrase": "HTTP/1.1 401 no such key " + value + "\r\nContent-Length: 2\r\n\r\nok",
		"interim":      "HTTP/1.1 103 " + value + "\r\nLink: <" + value + ">\r\n\r\nHTTP/1.1 100 " + value + "\r\n\r\n" + end,
		"name":         "HTTP/1.1 200 OK\r\n" + value + ": x\r\nX-" + strings.ToUpper(value) + ": x\r\nContent-Length: 2\r\n\r\nok",
		"own fields": "HTTP/1.1 200 OK\r\nTrailer: " + value + "\r\nExpect: " + value + "\r\nConnection: " + value + "\r\nTE: " + value + "\r\nUpgrade: " + value +
			"\r\nSec-WebSocket-Protocol: " + value + "\r\nSec-WebSocket-Key: " + value + "\r\nAlt-Svc: " + value + "\r\nContent-Length: 2\r\n\r\nok",
		"trailer name": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=" + value + "\r\nok\r\n0\r\n" + value + ": x\r\nX-Late: " + value + "\r\n\r\n",
		"bad head":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + value + "\r\n\r\nok",
	}[way]
	if strings.HasPrefix(way, "ws ") {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		text = "HTTP/1.1 101 " + value + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Said: " + value +
			"\r\nSec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
		frame := func(first byte, data string) string { return string([]byte{first, byte(len(data))}) + data }
		switch way {
		case "ws ping":
			text += frame(0x89, value)
		case "ws pong":
			text += frame(0x8a, value)
		case "ws text":
			text += frame(0x81, value)
		case "ws halves":
			text += frame(0x01, value[:len(value)/2]) + frame(0x89, "") + frame(0x80, value[len(value)/2:])
		}
		text += frame(0x88, "\x03\xe8"+value)
	}
	if text == "" {
		http.NotFound(w, r)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, text)
	_ = conn.Close()
}

// Echoes are the ways of echo.
func Echoes() []string {
	return []string{"phrase", "error phrase", "interim", "name", "own fields", "trailer name", "bad head", "ws ping", "ws pong", "ws text", "ws halves", "ws end"}
}

// Reflections are the ways of reflect.
func Reflections() []string {
	return []string{"body", "header", "error", "gzip", "pieces", "base64", "hex", "percent", "query", "json", "trailer", "cookie", "location"}
}

// Describe sets what the MCP server says of its tools from now on, or "PLACE: TEXT"
// what it says at another place (changedIn).
func (w *World) Describe(text string) {
	w.sinks.mu.Lock()
	defer w.sinks.mu.Unlock()
	w.sinks.described = text
}

// changedIn is what Describe adds at a place: "PLACE: TEXT", and all else to descriptions.
func changedIn(place, described string) string {
	at, text, is := strings.Cut(described, ": ")
	if !is {
		at, text = "", described
	}
	if at != place {
		return ""
	}
	return text
}

// tools is an MCP server: read, write and evil, which take a path. What was
// called is kept.
func (s *sinks) tools(w http.ResponseWriter, body []byte) {
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &req) != nil || req.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.mu.Lock()
	described := s.described
	s.mu.Unlock()
	result := map[string]any{}
	switch req.Method {
	case "initialize":
		some := map[string]any{}
		result = map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": some, "resources": some, "prompts": some},
			"serverInfo": map[string]any{"name": "tools", "version": "1"}, "instructions": "instructions of it" + changedIn("instructions", described)}
	case "prompts/list":
		result["prompts"] = []any{map[string]any{"name": "p", "description": "a prompt of it" + changedIn("prompt", described)}}
	case "resources/list":
		result["resources"] = []any{map[string]any{"uri": "docs://a", "name": "a", "description": "resource" + changedIn("resource", described)}}
	case "resources/templates/list":
		result["resourceTemplates"] = []any{map[string]any{"uriTemplate": "docs://{x}", "name": "t", "description": "template" + changedIn("template", described)}}
	case "tools/list":
		var list []any
		for _, name := range []string{"read", "write", "evil", "ask_sampling/createMessage", "ask_elicitation/create", "ask_roots/list"} {
			schema := func(place string) map[string]any {
				return map[string]any{"type": "object", "description": "of " + name + changedIn(place, described)}
			}
			list = append(list, map[string]any{
				"name": name, "description": name + changedIn("", described), "title": "title of " + name + changedIn("title", described),
				"annotations": map[string]any{"title": "t" + changedIn("annotations", described)}, "inputSchema": schema("inputSchema"), "outputSchema": schema("outputSchema"),
			})
		}
		result["tools"] = list
	case "tools/call":
		s.keep(&s.up, "called: "+req.Params.Name)
		if what, ok := strings.CutPrefix(req.Params.Name, "ask_"); ok {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"%s\",\"params\":{}}\n\n", what)
			fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"asked\"}]}}\n\n", req.ID)
			return
		}
		result["content"] = []any{map[string]any{"type": "text", "text": "called " + req.Params.Name}}
	case "resources/read":
		s.keep(&s.up, "read: "+req.Params.URI)
		result["contents"] = []any{map[string]any{"uri": req.Params.URI, "text": "contents: " + req.Params.URI}}
	default:
		s.keep(&s.up, "method: "+req.Method)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": req.ID, "result": result}) // who asked may be gone
}

// readBody keeps what a request brings besides its head.
func (s *sinks) readBody(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if len(body) > 0 || err != nil || len(r.Trailer) > 0 {
		s.keep(&s.up, fmt.Sprintf("inspected body: %q %v %q", body, err, r.Trailer))
	}
	return body
}
