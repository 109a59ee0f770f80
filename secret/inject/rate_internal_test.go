package inject

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"cloister/internal/budget"
	"cloister/secret"
	"cloister/secret/inject/unpack"
)

// pieces gives a text in two reads, cut at one place.
type pieces struct{ left [][]byte }

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.left) > 0 && len(p.left[0]) == 0 {
		p.left = p.left[1:]
	}
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	p.left[0] = p.left[0][n:]
	return n, nil
}

// spoken are the ways in which servers write a value without meaning to hide it.
func spoken(s string) map[string]string {
	quoted, _ := json.Marshal(s)
	var percent strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&percent, "%%%02X", s[i])
	}
	out := map[string]string{
		"plain": s, "hex": hex.EncodeToString([]byte(s)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(s))),
		"query": url.QueryEscape(s), "path": url.PathEscape(s), "percent": percent.String(), "json": string(quoted),
	}
	for i := range 3 {
		around := strings.Repeat("x", i) + s + "yz"
		out[fmt.Sprintf("base64 %d", i)] = base64.StdEncoding.EncodeToString([]byte(around))
		out[fmt.Sprintf("base64url %d", i)] = base64.RawURLEncoding.EncodeToString([]byte(around))
	}
	return out
}

// packed is a text in each content coding.
func packed(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{"identity": text}
	for name, open := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
			if err != nil {
				t.Fatal(err)
			}
			return z
		},
	} {
		var b bytes.Buffer
		w := open(&b)
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		out[name] = b.Bytes()
	}
	return out
}

// The rate that docs/secrets.md publishes: an answer that says the value in one of the
// usual ways, in one of the usual codings, in two pieces (cut at each of its bytes, at
// each seventh of a packed one), says no nine bytes of it in a row to the program, and
// is as long as it was.
func TestScrubRate(t *testing.T) {
	const real = `sk-ant-api03-Zq9/V+x7"T4w=Lk2&Rb8`
	value, err := secret.New(real)
	if err != nil {
		t.Fatal(err)
	}
	scrubber := secret.NewScrubber([]secret.Scrubbed{{Value: value, Placeholder: secret.NewPlaceholder(value).Text}})
	tried, caught := 0, 0
	memory := unpack.Of(budget.New(128<<20, 0, 10*time.Second).Share())
	for form, said := range spoken(real) {
		text := []byte("data: " + said + "\n\n")
		secretive := giveaways(real, form)
		for _, window := range secretive {
			if !strings.Contains(string(text), window) {
				t.Fatalf("control: %s does not say %q", form, window)
			}
		}
		for coding, body := range packed(t, text) {
			var codings []string
			step := 1
			if coding != "identity" {
				codings, step = []string{coding}, 7
			}
			for cut := 0; cut <= len(body); cut += step {
				from, err := memory.Reader(t.Context(), codings, &pieces{left: [][]byte{bytes.Clone(body[:cut]), bytes.Clone(body[cut:])}})
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(&scrubReader{from: from, scrub: scrubber.Stream()})
				if err != nil {
					t.Fatalf("%s, %s, cut at %d: %v", form, coding, cut, err)
				}
				tried++
				left := ""
				for _, window := range secretive {
					if strings.Contains(string(got), window) {
						left = window
					}
				}
				if left == "" && len(got) == len(text) {
					caught++
				} else if tried-caught < 5 {
					t.Errorf("%s, %s, cut at %d: %q is left in %q", form, coding, cut, left, got)
				}
			}
		}
	}
	if caught != tried || tried < 1000 {
		t.Errorf("%d of %d answers were scrubbed", caught, tried)
	}
	t.Logf("%d of %d answers were scrubbed", caught, tried)
}

// giveaways are the value's parts, behind what its placeholder has too, as they stand
// in one form.
func giveaways(real, form string) []string {
	const common, window = 13, 9 // of bytes, so that base64 says whole groups
	var out []string
	for at := common; at+window <= len(real); at++ {
		part := real[at : at+window]
		switch name, shift, _ := strings.Cut(form, " "); name {
		case "base64", "base64url":
			lead := int(shift[0] - '0')
			if (lead+at)%3 != 0 {
				continue
			}
			if name == "base64" {
				out = append(out, base64.StdEncoding.EncodeToString([]byte(part)))
			} else {
				out = append(out, base64.RawURLEncoding.EncodeToString([]byte(part)))
			}
		case "json":
			quoted, _ := json.Marshal(part)
			out = append(out, string(quoted[1:len(quoted)-1]))
		default:
			out = append(out, spoken(part)[form])
		}
	}
	return out
}
