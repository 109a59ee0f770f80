package browsers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"cloister/session/browsers"
)

// TestFiles writes each authority into the policy of each browser. That Chromium and
// Firefox obey it is seen in cmd/cloister/realtest.
func TestFiles(t *testing.T) {
	der := [][]byte{[]byte("the one"), []byte("another")}
	var text []byte
	for _, d := range der {
		text = slices.Concat(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d}), []byte("words between\n"))
	}
	files, err := browsers.Files(text)
	if err != nil {
		t.Fatal(err)
	}
	firefox := map[string][]byte{}
	for _, f := range files {
		if strings.HasPrefix(string(f.Path), "/etc/firefox/") {
			firefox[string(f.Path)] = f.Data
			continue
		}
		for _, d := range der {
			if !bytes.Contains(f.Data, []byte(`"`+base64.StdEncoding.EncodeToString(d)+`"`)) {
				t.Errorf("%s lacks %q: %s", f.Path, d, f.Data)
			}
		}
	}
	if len(files)-len(firefox) != 3 || len(firefox) != 3 {
		t.Fatalf("%d files, %d of Firefox", len(files), len(firefox))
	}
	var policy struct {
		Policies struct {
			Certificates struct{ Install []string } `json:"Certificates"`
		} `json:"policies"`
	}
	if err := json.Unmarshal(firefox["/etc/firefox/policies/policies.json"], &policy); err != nil {
		t.Fatal(err)
	}
	for i, path := range policy.Policies.Certificates.Install {
		if block, _ := pem.Decode(firefox[path]); block == nil || !bytes.Equal(block.Bytes, der[i]) {
			t.Errorf("%s holds %q, want %q", path, firefox[path], der[i])
		}
	}
	if got := len(policy.Policies.Certificates.Install); got != len(der) {
		t.Errorf("Firefox installs %d, want %d", got, len(der))
	}
	if files, err := browsers.Files([]byte("no certificate\n")); err != nil || files != nil {
		t.Errorf("nothing to trust: %v, %v", files, err)
	}
}
