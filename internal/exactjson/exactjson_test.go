package exactjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloister/internal/exactjson"
)

type inner struct{ Text string }

type embedded struct{ Word string }

type path string

type all struct {
	embedded
	Path   path              `json:"path"`
	List   []string          `json:"list"`
	Pair   [2]path           `json:"pair"`
	By     map[string]inner  `json:"by"`
	Keys   map[path][]string `json:"keys"`
	Ref    *inner            `json:"ref"`
	None   *inner            `json:"none,omitempty"`
	Any    any               `json:"any"`
	Raw    json.RawMessage   `json:"raw"`
	Bytes  []byte            `json:"bytes"`
	Time   time.Time         `json:"time"`
	Number int               `json:"number"`
}

func filled(s string) all {
	return all{
		embedded: embedded{s}, Path: path(s), List: []string{s, "", s}, Pair: [2]path{path(s), "x"},
		By: map[string]inner{s: {s}}, Keys: map[path][]string{path(s): {s}}, Ref: &inner{s}, Any: s,
		Raw: json.RawMessage(`{"a":"\"b"}`), Bytes: []byte(s), Time: time.Unix(1, 2).UTC(), Number: 7,
	}
}

// Every string comes back byte for byte, wherever it stands, and the original stays.
func TestEveryByte(t *testing.T) {
	texts := []string{"", `"`, `""`, `"a"`, `\`, `\xff`, "a\x00b", "\xff", "/\xff\xfe", "�", "/ä", "\xc3", "\xed\xa0\x80", "\u2028<&>",
		"\n\r\t\x1b[2J", "\xf4\x90\x80\x80", `"\xff"`, "\"\xff"}
	for i := range 256 {
		texts = append(texts, string([]byte{byte(i)}), string([]byte{'/', byte(i), 0xff, byte(i)}))
	}
	for _, s := range texts {
		before := filled(s)
		text, err := exactjson.Marshal(before)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		var got all
		if err := exactjson.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q: %v\n%s", s, err, text)
		}
		if diff := cmp.Diff(filled(s), got, cmp.AllowUnexported(all{})); diff != "" {
			t.Errorf("%q: %s\n%s", s, diff, text)
		}
		if diff := cmp.Diff(filled(s), before, cmp.AllowUnexported(all{})); diff != "" {
			t.Errorf("%q: the original is another: %s", s, diff)
		}
	}
}

// What encoding/json keeps is written as by it.
func TestPlainStaysPlain(t *testing.T) {
	for _, s := range []string{"", "/home/ä b", `a"b\`, "\x00", "�"} {
		want, err := json.Marshal(filled(s))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := exactjson.Marshal(filled(s)); err != nil || string(got) != string(want) {
			t.Errorf("%q: %v %s, not %s", s, err, got, want)
		}
	}
}

func TestWrongSpelling(t *testing.T) {
	for _, text := range []string{`{"path":"\"a"}`, `{"list":["\"\\xzz\""]}`, `{"by":{"\"":{}}}`} {
		var v all
		if err := exactjson.Unmarshal([]byte(text), &v); err == nil || !strings.Contains(err.Error(), "not as this program writes it") {
			t.Errorf("%s is read as %+v: %v", text, v, err)
		}
	}
}

// FuzzEveryByte compares any two strings that are written beside each other.
func FuzzEveryByte(f *testing.F) {
	f.Add("\xff", `"`)
	f.Fuzz(func(t *testing.T, a, b string) {
		text, err := exactjson.Marshal(map[string]string{a: b})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := exactjson.Unmarshal(text, &got); err != nil || len(got) != 1 || got[a] != b {
			t.Errorf("%q: %q is read as %q: %v", a, b, got, err)
		}
	})
}
