package browsers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"testing"

	"cloister/session/browsers"
)

// TestFiles writes each authority into the policy of each browser. That Chromium obeys
// it is seen in cmd/cloister/realtest.
func TestFiles(t *testing.T) {
	der := [][]byte{[]byte("the one"), []byte("another")}
	var text []byte
	for _, d := range der {
		text = slices.Concat(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d}), []byte("words between\n"))
	}
	files, err := browsers.Files(text)
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		for _, d := range der {
			if !bytes.Contains(f.Data, []byte(`"`+base64.StdEncoding.EncodeToString(d)+`"`)) {
				t.Errorf("%s lacks %q: %s", f.Path, d, f.Data)
			}
		}
	}
	if files, err := browsers.Files([]byte("no certificate\n")); err != nil || files != nil {
		t.Errorf("nothing to trust: %v, %v", files, err)
	}
}
