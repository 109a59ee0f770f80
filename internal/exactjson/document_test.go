package exactjson_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"cloister/internal/exactjson"

	"github.com/google/go-cmp/cmp"
)

type change struct {
	Path string `json:"path"`
	From string `json:"from"`
	Size int    `json:"size"`
}

// TestDocument: UTF-8 is as it was, other bytes come back whole, and no two of them are one.
func TestDocument(t *testing.T) {
	type doc struct {
		Changes []change       `json:"changes"`
		Names   []string       `json:"names"`
		By      map[string]int `json:"by"`
		Raw     any            `json:"raw"`
	}
	plain := doc{[]change{{"a <b> \ufffd", `"quoted"`, 1}}, []string{}, nil, json.RawMessage(`{"x":1}`)}
	want, err := json.MarshalIndent(plain, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got, err := exactjson.Document(plain)
	if err != nil {
		t.Fatal(err)
	}
	var one, two any
	if json.Unmarshal(want, &one) != nil || json.Unmarshal(got, &two) != nil || !cmp.Equal(one, two) {
		t.Errorf("%s\nis not\n%s", got, want)
	}
	odd := doc{[]change{{"caf\xe9", "plain", 1}, {"caf\xe8", "a\"\\\n\xff", 2}, {"é", "", 3}}, []string{"x\xfe", "y"},
		map[string]int{"k\xfd": 7}, nil}
	got, err = exactjson.Document(odd)
	if err != nil {
		t.Fatal(err)
	}
	const listed = `{
  "changes": [
    {
      "path": "\"caf\\xe9\"",
      "path_base64": "Y2Fm6Q==",
      "from": "plain",
      "size": 1
    },
    {
      "path": "\"caf\\xe8\"",
      "path_base64": "Y2Fm6A==",
      "from": "\"a\\\"\\\\\\n\\xff\"",
      "from_base64": "YSJcCv8=",
      "size": 2
    },
    {
      "path": "é",
      "from": "",
      "size": 3
    }
  ],
  "names": [
    "\"x\\xfe\"",
    "y"
  ],
  "by": {
    "\"k\\xfd\"": 7
  },
  "raw": null
}
`
	if diff := cmp.Diff(listed, string(got)); diff != "" {
		t.Error(diff)
	}
	if odd.Changes[0].Path != "caf\xe9" {
		t.Error("what was written was changed")
	}
}

// TestDocumentLookalikes: a name that is written as another is quoted is no other's.
func TestDocumentLookalikes(t *testing.T) {
	names := []string{"caf\xe9", `"caf\xe9"`, `"\"caf\\xe9\""`, `"cafe"`, `"`}
	text, err := exactjson.Document(names)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	if err := json.Unmarshal(text, &shown); err != nil || len(shown) != len(names) {
		t.Fatalf("%v\n%s", err, text)
	}
	seen := map[string]string{}
	for i, s := range shown {
		if other, twice := seen[s]; twice {
			t.Errorf("%q and %q are both %s", other, names[i], s)
		}
		seen[s] = names[i]
	}
	if shown[3] != names[3] || shown[4] != names[4] { // the control: others are as they were
		t.Errorf("%q", shown)
	}
	alone, err := exactjson.Document(change{Path: `"caf\xe9"`})
	var one map[string]any
	if err != nil || json.Unmarshal(alone, &one) != nil || one["path_base64"] == nil {
		t.Errorf("alone it is taken for the other: %s, %v", alone, err)
	}
}

// FuzzDocument: what is written is JSON, and has the bytes.
func FuzzDocument(f *testing.F) {
	f.Add("caf\xe9", "\": \"x")
	f.Add("\xff\"", `\"path_base64": "eA=="`)
	f.Fuzz(func(t *testing.T, path, from string) {
		text, err := exactjson.Document([]change{{Path: path, From: from}})
		if err != nil {
			t.Fatal(err)
		}
		var back []map[string]any
		if err := json.Unmarshal(text, &back); err != nil || len(back) != 1 {
			t.Fatalf("%v\n%s", err, text)
		}
		for name, want := range map[string]string{"path": path, "from": from} {
			got, _ := back[0][name].(string)
			if coded, odd := back[0][name+"_base64"].(string); odd {
				raw, err := base64.StdEncoding.DecodeString(coded)
				if err != nil {
					t.Fatal(err)
				}
				got = string(raw)
			}
			if got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}
