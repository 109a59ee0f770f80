package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"cloister/secret"
)

// written are ways in which a program writes a text.
func written(s string) map[string]string {
	quoted, _ := json.Marshal(s)
	out := map[string]string{
		"plain": s, "hex": hex.EncodeToString([]byte(s)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(s))),
		"query": url.QueryEscape(s), "path": url.PathEscape(s), "json": string(quoted),
	}
	for i := range 3 {
		pad := strings.Repeat("x", i)
		out[fmt.Sprintf("base64 %d", i)] = base64.StdEncoding.EncodeToString([]byte(pad + s + pad))
		out[fmt.Sprintf("base64url %d", i)] = base64.RawURLEncoding.EncodeToString([]byte(pad + s + pad + "?"))
	}
	var percent, uni strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&percent, "%%%02X", s[i])
		fmt.Fprintf(&uni, "\\u%04x", s[i])
	}
	out["percent"], out["escapes"] = percent.String(), uni.String()
	return out
}

func TestFindsEveryEncodingHoweverCut(t *testing.T) {
	p := secret.NewPlaceholder(value(t, canary))
	other := secret.NewPlaceholder(value(t, canary))
	f := secret.NewFinder([]string{other.Core, p.Core})
	forms := written(p.Text)
	forms["half percent"] = strings.Replace(p.Text, p.Core[4:5], fmt.Sprintf("%%%02x", p.Core[4]), 1)
	forms["base64 in lines"] = strings.Join(chunked(base64.StdEncoding.EncodeToString([]byte(p.Text)), 8), "\r\n ")
	forms["base64 in percent"] = strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte(p.Text)), "e", "%65")
	for name, text := range forms {
		text = "before " + text + " after"
		for size := 1; size <= len(text); size += 1 + size/3 {
			s, got := f.Stream(), -1
			for _, piece := range chunked(text, size) {
				if got = s.Write([]byte(piece)); got >= 0 {
					break
				}
			}
			if got != 1 {
				t.Fatalf("%s in pieces of %d: found %d", name, size, got)
			}
		}
		if got := f.In(text); got != 1 && name != "base64 in lines" {
			t.Errorf("%s: In gives %d", name, got)
		}
	}
	for _, innocent := range []string{"", canary, p.Core[:19], "100% of \\u and %zz", strings.Repeat("a", 1000)} {
		if got := f.In(innocent); got >= 0 {
			t.Errorf("%q: found %d", innocent, got)
		}
	}
}

func chunked(s string, n int) []string {
	var out []string
	for len(s) > n {
		out, s = append(out, s[:n]), s[n:]
	}
	return append(out, s)
}

// caught tells whether nothing of a value is left that gives it away.
func caught(out, real, form string) bool {
	if strings.Contains(out, form) {
		return false
	}
	for i := 13; i+12 <= len(real); i++ { // what it begins with, its placeholder has too
		if strings.Contains(out, real[i:i+12]) {
			return false
		}
	}
	return true
}

func TestScrubsHoweverCut(t *testing.T) {
	for _, real := range []string{canary, "ghp_" + strings.Repeat("aZ9", 12), `we"ird+va/lue=with?signs&more`, "hunter2hunter"} {
		v := value(t, real)
		p := secret.NewPlaceholder(v)
		c := secret.NewScrubber([]secret.Scrubbed{{Value: v, Placeholder: p.Text}})
		for name, form := range written(real) {
			if name == "escapes" {
				continue // measured below: not caught
			}
			text := "data: " + form + "\n\n"
			core := form
			if strings.HasPrefix(name, "base64") {
				core = strings.TrimRight(form, "=")[4 : len(strings.TrimRight(form, "="))-4]
			}
			for size := 1; size <= len(text); size += 1 + size/3 {
				s, out := c.Stream(), []byte(nil)
				for _, piece := range chunked(text, size) {
					out = s.Write(out, []byte(piece))
				}
				out = s.Flush(out)
				if len(out) != len(text) {
					t.Fatalf("%s: %d bytes became %d", name, len(text), len(out))
				}
				if !caught(string(out), real, core) {
					t.Fatalf("%s of %q in pieces of %d: %q", name, real, size, out)
				}
			}
			if name == "plain" && len(p.Text) == len(real) {
				if got, n := c.Text(text); got != "data: "+p.Text+"\n\n" || n != 1 {
					t.Errorf("plain: %q, %d", got, n)
				}
			}
		}
	}
}

func TestScrubLeavesTheRestAlone(t *testing.T) {
	c := secret.NewScrubber([]secret.Scrubbed{{Value: value(t, canary), Placeholder: "x"}})
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<16)
	for i := range text {
		text[i] = canary[r.IntN(len(canary))]
	}
	s, out := c.Stream(), []byte(nil)
	for _, piece := range chunked(string(text), 777) {
		out = s.Write(out, []byte(piece))
	}
	if out = s.Flush(out); !bytes.Equal(out, text) || s.Count != 0 {
		t.Errorf("changed, %d found", s.Count)
	}
	if secret.NewScrubber([]secret.Scrubbed{{Value: value(t, "short")}}) != nil {
		t.Error("a value of five characters would be found everywhere")
	}
}

func TestScrubHoldsBackNoMore(t *testing.T) {
	c := secret.NewScrubber([]secret.Scrubbed{{Value: value(t, canary), Placeholder: "x"}})
	s := c.Stream()
	const event = "event: delta\ndata: {\"text\":\"hello\"}\n\n"
	if out := s.Write(nil, []byte(event)); string(out) != event {
		t.Errorf("an event waits: %q", out)
	}
}

func BenchmarkFindHead(b *testing.B) {
	var cores []string
	for range 5 {
		v, _ := secret.New(canary)
		cores = append(cores, secret.NewPlaceholder(v).Core)
	}
	f := secret.NewFinder(cores)
	head := strings.Repeat("application/json, text/plain; q=0.9 ", 30)
	b.SetBytes(int64(len(head)))
	for b.Loop() {
		f.In(head)
	}
}

func BenchmarkFindBody(b *testing.B) {
	v, _ := secret.New(canary)
	f := secret.NewFinder([]string{secret.NewPlaceholder(v).Core})
	body := bytes.Repeat([]byte(`{"role":"user","content":"fix the tests, please\n"},`), 1000)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		f.Stream().Write(body)
	}
}

func BenchmarkScrub(b *testing.B) {
	v, _ := secret.New(canary)
	c := secret.NewScrubber([]secret.Scrubbed{{Value: v, Placeholder: "x"}})
	body := bytes.Repeat([]byte(`{"role":"user","content":"fix the tests, please\n"},`), 1000)
	out := make([]byte, 0, len(body)+100)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		s := c.Stream()
		out = s.Flush(s.Write(out[:0], body))
	}
}
