package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloister/serve/e2b/wire"
)

// create is a request for a sandbox, as far as it is about the network.
type create struct {
	Network *wire.Network `json:"network"`
}

// What names no member of the network is refused: it would take nothing away. What the SDKs send is
// taken.
func TestMisspeltNetwork(t *testing.T) {
	for text, want := range map[string]string{
		`{"denyOut":["a.test"]}`:                         "",
		`{"allowOut":[],"denyOut":["*"],"rules":{}}`:     "",
		`{"allow_internet_access":false}`:                "",
		`{}`:                                             "",
		`{"denyout":["a.test"]}`:                         `no "denyout"`,
		`{"deny_out":["a.test"]}`:                        `no "deny_out"`,
		`{"DenyOut":["a.test"]}`:                         `no "DenyOut"`,
		`{"allowInternetAccess":false}`:                  `no "allowInternetAccess"`,
		`{"denyOut":["a.test"],"denyOut":[]}`:            "twice",
		`{"deny\u004fut":["a.test"],"denyOut":[]}`:       "twice",
		`{"network":{"denyOut":["a.test"]}}`:             `no "network"`,
		`["denyOut"]`:                                    "want an object",
		`{"denyOut":"a.test"}`:                           "cannot unmarshal",
		`{"maskRequestHost":"a.test"}`:                   "maskRequestHost",
		`{"` + strings.Repeat("x", 100_000) + `":false}`: "no",
	} {
		var q wire.Update
		err := json.Unmarshal([]byte(text), &q)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
		if want == "" || strings.Contains(text, "network") || strings.Contains(text, "nternet") || strings.Contains(text, "mask") {
			continue
		}
		var c create
		if err := json.Unmarshal([]byte(`{"templateID":"base","network":`+text+`}`), &c); err == nil {
			t.Errorf("create: %.60s is taken", text)
		}
	}
	var c create
	const all = `{"templateID":"base","other":1,"network":{"allowOut":["b.test"],"denyOut":["*"],"allowPublicTraffic":false,` +
		`"maskRequestHost":"x","httpsPorts":[443]}}`
	if err := json.Unmarshal([]byte(all), &c); err != nil || c.Network.DenyOut[0] != "*" || c.Network.AllowPublicTraffic == nil {
		t.Errorf("create: %v, %+v", err, c.Network)
	}
	if err := json.Unmarshal([]byte(`{"network":null}`), &c); err != nil {
		t.Error(err)
	}
}
