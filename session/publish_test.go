package session_test

import (
	"testing"

	"cloister/api"
	"cloister/session"
)

func TestParsePublished(t *testing.T) {
	for text, want := range map[string]api.Published{
		"8080": {HostPort: 8080, Port: 8080}, "80:8080": {HostPort: 80, Port: 8080},
		"127.0.0.1:8080": {HostPort: 8080, Port: 8080}, "127.0.0.1:80:8080": {HostPort: 80, Port: 8080},
		"localhost:80:8080": {HostPort: 80, Port: 8080}, "60999:61000": {HostPort: 60999, Port: 61000}, "65000": {HostPort: 65000, Port: 65000},
		// the window's own (docs/decisions/0018)
		"61000": {}, "64999:80": {}, "127.0.0.1:62000:80": {},
		"1:65535": {HostPort: 1, Port: 65535},
		"":        {}, "0": {}, "0:80": {}, "80:0": {}, "65536": {}, "x": {}, "80:x": {}, ":80": {}, "80:": {}, "1:2:3": {},
		"0.0.0.0:80:80": {}, "192.168.1.1:80": {}, "[::1]:80": {}, "::1:80": {}, "+80": {}, "080": {}, " 80": {}, "80/tcp": {},
		"-1": {}, "127.0.0.2:80": {}, "localhost": {}, "::ffff:127.0.0.1:80": {},
	} {
		got, err := session.ParsePublished(text)
		if got != want || (err == nil) != (want != api.Published{}) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
