package connect_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cloister/serve/connect"
)

type message struct {
	Text string `json:"text"`
}

func echo() http.Handler {
	return connect.Unary(func(_ context.Context, _ *http.Request, in message) (message, error) {
		if in.Text == "missing" {
			return message{}, connect.Errorf(connect.NotFound, "no such thing")
		}
		return in, nil
	})
}

func double() http.Handler {
	return connect.Stream(func(ctx context.Context, _ *http.Request, in *connect.Input, out *connect.Output) error {
		for {
			var m message
			if err := in.Next(&m); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if m.Text == "wait" {
				<-ctx.Done()
				return ctx.Err()
			}
			for range 2 {
				if err := out.Send(m); err != nil {
					return err
				}
			}
		}
	})
}

func packed(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text)
	_ = z.Close()
	return b.Bytes()
}

func envelope(flags byte, text []byte) []byte {
	head := make([]byte, 5)
	head[0] = flags
	binary.BigEndian.PutUint32(head[1:], uint32(len(text)))
	return append(head, text...)
}

func post(t *testing.T, h http.Handler, kind string, header map[string]string, body []byte) (*http.Response, []byte) {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

func TestUnary(t *testing.T) {
	long := []byte(`{"text":"` + strings.Repeat("a", connect.MaxMessage) + `"}`)
	for _, tt := range []struct {
		name, kind string
		header     map[string]string
		body       []byte
		status     int
		want       string
	}{
		{"a message", "application/json", nil, []byte(`{"text":"x"}`), 200, `{"text":"x"}`},
		{"packed", "application/json", map[string]string{"Content-Encoding": "gzip"}, packed([]byte(`{"text":"x"}`)), 200, `{"text":"x"}`},
		{"nothing is the empty message", "application/json", nil, nil, 200, `{"text":""}`},
		{"an error with its code", "application/json", nil, []byte(`{"text":"missing"}`), 404, `"code":"not_found"`},
		{"no JSON", "application/json", nil, []byte(`{`), 400, "invalid_argument"},
		{"too long", "application/json", nil, long, 429, "resource_exhausted"},
		{"too long unpacked", "application/json", map[string]string{"Content-Encoding": "gzip"}, packed(long), 429, "resource_exhausted"},
		{"packed with something else", "application/json", map[string]string{"Content-Encoding": "br"}, []byte(`{}`), 501, "unimplemented"},
		{"binary", "application/proto", nil, []byte{}, 415, ""},
		{"a deadline that is none", "application/json", map[string]string{"Connect-Timeout-Ms": "-1"}, []byte(`{}`), 400, "invalid_argument"},
		{"a deadline beyond time", "application/json", map[string]string{"Connect-Timeout-Ms": "99999999999"}, []byte(`{}`), 400, "invalid_argument"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp, text := post(t, echo(), tt.kind, tt.header, tt.body)
			if resp.StatusCode != tt.status || !strings.Contains(string(text), tt.want) {
				t.Errorf("%s %.200s, want %d %s", resp.Status, text, tt.status, tt.want)
			}
		})
	}
}

// last reads a stream's messages and gives the code of its last.
func last(t *testing.T, text []byte) (messages []string, code string) {
	t.Helper()
	for len(text) >= 5 {
		n := binary.BigEndian.Uint32(text[1:])
		body, flags := text[5:5+n], text[0]
		text = text[5+n:]
		if flags&2 == 0 {
			messages = append(messages, string(body))
			continue
		}
		var end struct {
			Error *connect.Error `json:"error"`
		}
		if err := json.Unmarshal(body, &end); err != nil {
			t.Fatal(err)
		}
		if len(text) > 0 {
			t.Errorf("%d bytes after the last message", len(text))
		}
		if end.Error != nil {
			return messages, string(end.Error.Code)
		}
		return messages, "ok"
	}
	t.Fatal("the stream has no last message")
	return nil, ""
}

func TestStream(t *testing.T) {
	one := []byte(`{"text":"x"}`)
	for _, tt := range []struct {
		name   string
		header map[string]string
		body   []byte
		number int
		code   string
	}{
		{"two messages", nil, append(envelope(0, one), envelope(0, one)...), 4, "ok"},
		{"packed", map[string]string{"Connect-Content-Encoding": "gzip"}, envelope(1, packed(one)), 2, "ok"},
		{"packed without a word", nil, envelope(1, packed(one)), 0, "internal"},
		{"a length that is not there", nil, envelope(0, one)[:9], 0, "invalid_argument"},
		{"a length of gigabytes", nil, []byte{0, 0xff, 0xff, 0xff, 0xff}, 0, "resource_exhausted"},
		{"unknown flags", nil, envelope(4, one), 0, "invalid_argument"},
		{"the deadline", map[string]string{"Connect-Timeout-Ms": "20"}, envelope(0, []byte(`{"text":"wait"}`)), 0, "deadline_exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp, text := post(t, double(), "application/connect+json", tt.header, tt.body)
			messages, code := last(t, text)
			if resp.StatusCode != 200 || len(messages) != tt.number || code != tt.code {
				t.Errorf("%s, %q, %s; want %d messages, %s", resp.Status, messages, code, tt.number, tt.code)
			}
		})
	}
}

// FuzzInput reads streams that an enemy sent: it ends, and a message that it gives is one
// that was sent whole.
func FuzzInput(f *testing.F) {
	f.Add(envelope(0, []byte(`{"text":"x"}`)))
	f.Add(envelope(1, packed([]byte(`{"text":"x"}`))))
	f.Add([]byte{0, 0, 0, 0, 200, '{'})
	f.Fuzz(func(t *testing.T, body []byte) {
		req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/connect+json")
		req.Header.Set("Connect-Content-Encoding", "gzip")
		req.Header.Set("Connect-Timeout-Ms", "10")
		w := httptest.NewRecorder()
		double().ServeHTTP(w, req)
		last(t, w.Body.Bytes())
	})
}
