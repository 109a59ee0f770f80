package ocsf_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/audit"
	"cloister/audit/ocsf"

	"pgregory.net/rapid"
)

// rules are what the schema requires.
type rules struct {
	Event   []string `json:"event"`
	Classes map[string]struct {
		Required   []string  `json:"required"`
		Activities []float64 `json:"activities"`
	} `json:"classes"`
	Objects map[string][]string `json:"objects"`
}

func schema(t *testing.T) rules {
	t.Helper()
	text, err := os.ReadFile("testdata/required.json")
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// lacks gives what of a list an object has none of.
func lacks(object map[string]any, list []string) (out []string) {
	for _, want := range list {
		if !slices.ContainsFunc(strings.Split(want, "|"), func(name string) bool { v, ok := object[name]; return ok && v != "" }) {
			out = append(out, want)
		}
	}
	return out
}

// wrong gives what the schema has against an event.
func (r rules) wrong(event map[string]any) (out []string) {
	number, _ := event["class_uid"].(float64)
	activity, _ := event["activity_id"].(float64)
	class, ok := r.Classes[strconv.Itoa(int(number))]
	if !ok {
		return []string{"there is no such class"}
	}
	out = append(lacks(event, r.Event), lacks(event, class.Required)...)
	if !slices.Contains(class.Activities, activity) {
		out = append(out, "activity "+strconv.Itoa(int(activity)))
	}
	if event["type_uid"] != number*100+activity || event["category_uid"] != float64(int(number)/1000) {
		out = append(out, "type_uid or category_uid")
	}
	var objects func(map[string]any)
	objects = func(in map[string]any) {
		for name, v := range in {
			object, ok := v.(map[string]any)
			if !ok {
				continue
			}
			for _, l := range lacks(object, r.Objects[name]) {
				out = append(out, name+"."+l)
			}
			if name != "unmapped" {
				objects(object)
			}
		}
	}
	objects(event)
	return out
}

func shown(t interface{ Fatal(...any) }, e audit.Event) map[string]any {
	text, err := json.Marshal(ocsf.Of(e))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every kind, with little in it and with much, and kinds that a later version may have.
func TestEveryKindHasWhatItsClassRequires(t *testing.T) {
	r := schema(t)
	kinds := append(audit.Kinds(), "of.another.version", "")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "a", "/bin/sh -c x", "example.com", "\x1b\u202e"})
		number := func(s string) int64 { return rapid.Int64Range(0, 1<<40).Draw(t, s) }
		e := audit.Event{
			V: 1, Seq: uint64(number("seq")), Time: time.UnixMilli(number("time")), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			Hash: "h", Session: text.Draw(t, "session"), SessionID: text.Draw(t, "id"), Agent: text.Draw(t, "agent"),
			Action: text.Draw(t, "action"), Resource: text.Draw(t, "resource"), Rule: text.Draw(t, "rule"), Policy: text.Draw(t, "policy"),
			Host: text.Draw(t, "host"), Port: uint16(number("port")), Path: text.Draw(t, "path"), Method: text.Draw(t, "method"),
			Status: int(number("status")), PID: int(number("pid")), Verdict: rapid.SampledFrom([]string{"", "allow", "ask", "deny"}).Draw(t, "verdict"),
		}
		if bad := r.wrong(shown(t, e)); len(bad) > 0 {
			t.Fatalf("%s: %v", e.Kind, bad)
		}
	})
	for _, kind := range audit.Kinds() {
		if got := ocsf.Of(audit.Event{Kind: kind, Hash: "h"}); got.Metadata.EventCode != kind || got.ClassUID == 0 {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}

// The control: the rules find what is left out.
func TestWhatIsLeftOutIsFound(t *testing.T) {
	r := schema(t)
	for _, c := range []struct {
		kind audit.Kind
		gone []string
		want string
	}{
		{audit.Exec, []string{"process"}, "process"},
		{audit.NetConnect, []string{"src_endpoint", "dst_endpoint"}, "dst_endpoint|src_endpoint"},
		{audit.PolicyLoad, []string{"api"}, "api"},
		{audit.SecretUse, []string{"metadata"}, "metadata"},
	} {
		event := shown(t, audit.Event{Kind: c.kind, Hash: "h"})
		for _, name := range c.gone {
			delete(event, name)
		}
		if bad := r.wrong(event); !slices.Contains(bad, c.want) {
			t.Errorf("%s without %v: %v", c.kind, c.gone, bad)
		}
	}
}

func TestClassesAndVerdicts(t *testing.T) {
	for _, c := range []struct {
		e                       audit.Event
		class, activity, action int
	}{
		{audit.Event{Kind: audit.NetConnect, Verdict: "deny", Host: "a.test", Port: 443}, 4001, 5, 2},
		{audit.Event{Kind: audit.NetConnect, Verdict: "allow", Host: "a.test", Port: 443}, 4001, 1, 1},
		{audit.Event{Kind: audit.NetDNS, Verdict: "ask", Host: "a.test"}, 4003, 1, 3},
		{audit.Event{Kind: audit.HTTPRequest, Verdict: "allow", Method: "POST", Path: "/x"}, 4002, 6, 1},
		{audit.Event{Kind: audit.HTTPRequest, Verdict: "allow", Method: "PROPFIND", Path: "/x"}, 4002, 99, 1},
		{audit.Event{Kind: audit.Exec, Resource: "/bin/ls -l"}, 1007, 1, 0},
		{audit.Event{Kind: audit.FileDenied, Verdict: "deny", Path: "/etc/shadow"}, 1001, 14, 2},
		{audit.Event{Kind: audit.SecretUse, Verdict: "allow", Resource: "TOKEN", Host: "a.test"}, 3002, 1, 1},
		{audit.Event{Kind: audit.TenantKeyAdd}, 6003, 1, 0},
		{audit.Event{Kind: audit.SessionStop}, 6002, 4, 0},
	} {
		got := ocsf.Of(c.e)
		if got.ClassUID != c.class || got.ActivityID != c.activity || got.ActionID != c.action {
			t.Errorf("%s %s: class %d, activity %d, action %d, want %d, %d, %d", c.e.Kind, c.e.Verdict,
				got.ClassUID, got.ActivityID, got.ActionID, c.class, c.activity, c.action)
		}
	}
}
