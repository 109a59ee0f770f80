package serve

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/internal/authority"
	"cloister/policy"
	"cloister/policy/destination"
	"cloister/serve/tenants"
	"cloister/session/launch"
)

// TestNetworkNarrows has what a request says judged beside a policy that allows some: it
// never opens what that closes.
func TestNetworkNarrows(t *testing.T) {
	all := []string{"a.test", "b.test", "*.c.test", "203.0.113.7", "203.0.113.8", "198.51.100.0/24"}
	for name, tt := range map[string]struct {
		n    Network
		open string
	}{
		"nothing":                     {Network{}, "a b x.c 7 8 r"},
		"allowed alone":               {Network{AllowOut: []string{"other.test", "*"}}, "a b x.c 7 8 r"},
		"all, in other words":         {Network{DenyOut: []string{"::0/0"}}, ""},
		"all but one, in others":      {Network{DenyOut: []string{"0:0::/0"}, AllowOut: []string{"a.test"}}, "a"},
		"one that is not open":        {Network{AllowOut: []string{"other.test"}, DenyOut: []string{"*"}}, ""},
		"denied":                      {Network{DenyOut: []string{"a.test", "203.0.113.7"}}, "b x.c 8 r"},
		"a range denied":              {Network{DenyOut: []string{"203.0.113.0/24", "198.51.100.0/28"}}, "a b x.c"},
		"all but two":                 {Network{DenyOut: []string{"0.0.0.0/0"}, AllowOut: []string{"a.test", "203.0.113.7"}}, "a 7"},
		"all but a range":             {Network{DenyOut: []string{"::/0"}, AllowOut: []string{"203.0.113.0/24"}}, "7 8"},
		"a range but one":             {Network{DenyOut: []string{"203.0.113.0/24", "*.c.test"}, AllowOut: []string{"203.0.113.8"}}, "a b 8 r"},
		"of a copy: both take away":   {Network{AllowOut: []string{"a.test"}, DenyOut: []string{"*"}}.Less(Network{DenyOut: []string{"a.test"}}), ""},
		"of a copy: allowed is no up": {Network{AllowOut: []string{"a.test", "b.test"}}.Less(Network{AllowOut: []string{"b.test"}, DenyOut: []string{"*"}}), "b"},
	} {
		var o launch.Order
		if err := tt.n.Apply(&o); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rules, err := destination.Rules(all, o.Deny)
		if err != nil {
			t.Fatal(err)
		}
		in := policy.Input{Rules: rules}
		for _, f := range o.Narrow {
			in.Cedar = append(in.Cedar, policy.CedarFile{Name: f.Name, Text: []byte(f.Text)})
		}
		s, err := policy.Compile(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := ""
		for _, d := range []struct{ short, host string }{
			{"a", "a.test"}, {"b", "b.test"}, {"x.c", "x.c.test"}, {"7", "203.0.113.7"}, {"8", "203.0.113.8"}, {"r", "198.51.100.9"},
			{"other", "other.test"}, {"other address", "203.0.113.9"},
		} {
			a, err := authority.Parse(d.host, 443)
			if err != nil {
				t.Fatal(err)
			}
			if policy.Decide(s, policy.Request{Action: policy.NetworkConnect, Authority: a, Session: "s", Project: "/p"}).Effect == policy.Allow && !o.NoNetwork {
				got += " " + d.short
			}
		}
		if want := tt.open; got != "" && got[1:] != want || got == "" && want != "" {
			t.Errorf("%s: open are%s, want %s", name, got, want)
		}
	}
	for _, bad := range []string{`a"; permit(principal,action,resource)`, "a.test\\", "http://a.test", "203.0.113.0/33", "a.test:0443", "*.a.test:00", "[2001:db8::1]:0443", "203.0.113.0/24:80", "", "a b",
		"::ffff:203.0.113.0/120", "203.0.113.7/24"} {
		for _, n := range []Network{{DenyOut: []string{bad}}, {DenyOut: []string{"*"}, AllowOut: []string{bad}}} {
			if err := n.Apply(&launch.Order{}); err == nil {
				t.Errorf("%q is taken for a destination", bad)
			}
		}
	}
}

// TestNetworkOfCopies has copies of copies, each narrower: what was taken away is kept once,
// and within the bound of one request.
func TestNetworkOfCopies(t *testing.T) {
	n := Network{DenyOut: []string{"a.test"}}
	for range 3 {
		n = Network{DenyOut: []string{"a.test"}}.Less(n)
	}
	if len(n.Also) != 1 {
		t.Errorf("the same is kept %d times, not once", len(n.Also))
	}
	if text := n.Statements()[0].Text; strings.Count(text, "a.test") != 1 {
		t.Errorf("the same is forbidden twice: %s", text)
	}
	if n.DenyOut = nil; n.Usual() || !strings.Contains(n.Statements()[0].Text, "a.test") {
		t.Errorf("a copy that took the same away has it given back with its own words: %+v", n)
	}
	for i := range 1000 {
		n = Network{AllowOut: []string{"b.test"}, DenyOut: []string{"*", strconv.Itoa(i) + ".test"}}.Less(n)
	}
	if err := n.Apply(&launch.Order{}); err == nil {
		t.Errorf("%d lists of destinations are taken", len(n.Also))
	}
	bad := Request{Network: Network{AllowOut: []string{"a b"}}} // which a sandbox that was started ahead would be given to
	if err := bad.check(tenants.Usual()); err == nil {
		t.Error("what names no destination is taken where nothing is denied")
	}
}

// TestRecordsAtOnce has one request change the network while others give more time: what is
// written down last is what holds, and no record from before the network was narrowed.
func TestRecordsAtOnce(t *testing.T) {
	register, err := tenants.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &Sandbox{host: &Host{Options: Options{Tenants: register}}, record: Record{ID: "i", Tenant: "a", State: Running}}
	s.tenant = tenants.Tenant{Name: "a", Limits: tenants.Usual()}
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		var both sync.WaitGroup
		both.Go(func() {
			if err := s.SetEnd(time.Minute, false); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			s.mu.Lock()
			s.record.Network = Network{DenyOut: []string{strconv.Itoa(i) + ".test"}}
			s.mu.Unlock()
			if err := s.save(); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		got, err := readRecord(filepath.Join(s.dir(), "record.json"))
		if err != nil {
			t.Fatal(err)
		}
		if want := s.Record().Network.DenyOut[0]; got.Network.DenyOut == nil || got.Network.DenyOut[0] != want {
			t.Fatalf("round %d: %v is written down, not %s", i, got.Network.DenyOut, want)
		}
	}
}
