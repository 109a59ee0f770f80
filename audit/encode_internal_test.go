package audit

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"cloister/internal/termsafe"
)

// A record is what json.Marshal makes of it: with no member, each alone, and all.
func TestEncodeIsJSON(t *testing.T) {
	texts := []string{
		"", "plain text /a?b=c", `quote " and \`, "<a href='x'>&amp;", "tab\tline\nbell\a\x00\x1f\x7f", "grüße, 世界 🙂",
		"not UTF-8: \xff\xc3(", "C1 \u0085 bidi \u202e zero \u200b line \u2028 \u2029 nbsp \u00a0", strings.Repeat("é", maxField),
	}
	check := func(e Event) {
		t.Helper()
		plain, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendEvent(nil, &e)
		if want := termsafe.JSON(plain); err != nil || string(got) != string(want) {
			t.Errorf("got  %s (%v)\nwant %s", got, err, want)
		}
	}
	fill := func(v reflect.Value, text string, n int64) {
		switch v.Interface().(type) {
		case time.Time:
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, int(n)*1000, time.UTC)))
		case string:
			v.SetString(text)
		case int:
			v.SetInt(n)
		case uint64, uint16:
			v.SetUint(uint64(n))
		case *int64:
			v.Set(reflect.ValueOf(&n))
		case *int:
			at := int(n)
			v.Set(reflect.ValueOf(&at))
		default:
			t.Fatalf("a member of type %s: appendEvent and this test must learn it", v.Type())
		}
	}
	check(Event{})
	for _, text := range texts {
		for _, n := range []int64{0, 1, 123456} {
			var all Event
			for i := range reflect.TypeFor[Event]().NumField() {
				var one Event
				fill(reflect.ValueOf(&one).Elem().Field(i), text, n&0xffff)
				check(one)
				fill(reflect.ValueOf(&all).Elem().Field(i), text, n&0xffff)
			}
			check(all)
		}
	}
}

// The members that every event of a kind has are there when nothing is known yet.
func TestEncodeDue(t *testing.T) {
	for kind, want := range map[Kind]string{
		NetDNS: `"port":0`, NetConnect: `"port":0`, HTTPRequest: `"port":0,"status":0`,
		SessionStart: "", MCPCall: "",
	} {
		line, err := appendEvent(nil, &Event{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range []string{`"port":0`, `"status":0`} {
			if strings.Contains(string(line), m) {
				got = append(got, m)
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %s, want %s", kind, line, want)
		}
	}
}

// What is encoded in memory that is used again is decoded as it was meant.
func TestEncodeAgain(t *testing.T) {
	var buf []byte
	for _, reason := range []string{strings.Repeat("\x01", maxField), "short", strings.Repeat("long ", maxField)} {
		line, hash, err := encode(buf[:0], &Event{Kind: HTTPRequest, Reason: reason, Path: strings.Repeat("\u202e", maxField), Prev: genesis}, new(keyring).signer())
		if err != nil {
			t.Fatal(err)
		}
		e, err := new(keyring).decode(line[:len(line)-1])
		if err != nil || e.Hash != hash {
			t.Errorf("%v, hash %s, want %s", err, e.Hash, hash)
		}
		buf = line
	}
}

func BenchmarkEncode(b *testing.B) {
	var buf []byte
	n := int64(5)
	e := Event{
		Seq: 123456, Time: time.Now().UTC(), Session: "project", SessionID: "s-0123456789abcdef", Project: "/home/somebody/project", Agent: "claude",
		Kind: HTTPRequest, Action: "request", Resource: "api.example.com:443", Verdict: "allow", Rule: "api.example.com (config.yaml:6)",
		Reason: "allowed by a rule", Policy: "sha256:" + genesis, Host: "api.example.com", Port: 443, Via: "direct",
		BytesUp: &n, BytesDown: &n, DurationMS: &n, Method: "GET", Path: "/v1/messages", Isolation: "native", Prev: genesis,
	}
	keys := &keyring{dir: b.TempDir()}
	if err := keys.add(start(), time.Now()); err != nil {
		b.Fatal(err)
	}
	key := keys.signer()
	b.ReportAllocs()
	for b.Loop() {
		line, _, err := encode(buf[:0], &e, key)
		if err != nil {
			b.Fatal(err)
		}
		buf = line
	}
}
