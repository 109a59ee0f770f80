package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"cloister/internal/budget"
	"cloister/mcp"
	"cloister/policy"
)

// judge allows what begins with ok, and withholds the tools that it is told to.
type judge struct {
	calls    []mcp.Call
	listed   []mcp.Definition
	withheld []string
	serves   []string // methods of the server that are allowed
}

func (j *judge) Call(_ context.Context, c mcp.Call) mcp.Answer {
	j.calls = append(j.calls, c)
	if c.Feature >= policy.Sampling {
		return mcp.Answer{Allow: slices.Contains(j.serves, c.Method), Reason: "not served"}
	}
	return mcp.Answer{Allow: strings.HasPrefix(c.Name, "ok"), Reason: "not ok", Rule: "r", Server: "s"}
}

func (j *judge) Shows(_ policy.Feature, name string) bool { return strings.HasPrefix(name, "ok") }

func (j *judge) Listed(_ context.Context, listed []mcp.Definition) []string {
	j.listed = append(j.listed, listed...)
	return j.withheld
}

func gate(j *judge) *mcp.Gate {
	return &mcp.Gate{Judge: j, Root: func(uri string) bool { return uri == "file:///project" }}
}

func TestUp(t *testing.T) {
	call := func(name, args string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"` + args + `}}`
	}
	for name, tc := range map[string]struct {
		frame  string
		header mcp.Header
		status int    // 0: it goes up
		want   string // in the answer
	}{
		"a call":              {frame: call("ok1", `,"arguments":{"a":[1,{"b":null}]}`)},
		"a call that is not":  {frame: call("no", ""), status: 200, want: `"id":1,"error":{"code":-32003,"message":"cloister refused this: not ok"`},
		"arguments are none":  {frame: call("ok", `,"arguments":[1]`), status: 200, want: "no object"},
		"null for arguments":  {frame: call("ok", `,"arguments":null`)},
		"no name":             {frame: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, status: 200, want: "without name"},
		"a call without id":   {frame: `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"no"}}`, status: 403, want: `"id":null`},
		"initialize":          {frame: `{"jsonrpc":"2.0","id":"x","method":"initialize","params":{}}`},
		"a notification":      {frame: `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		"unknown method":      {frame: `{"jsonrpc":"2.0","id":1,"method":"tools/Call","params":{"name":"ok"}}`, status: 200, want: "none that rules speak of"},
		"prompt":              {frame: `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"no"}}`, status: 200},
		"resource":            {frame: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`, status: 200},
		"subscription":        {frame: `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"ok:1"}}`},
		"completion":          {frame: `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"ok"}}}`},
		"bad completion":      {frame: `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"no"}}}`, status: 200},
		"completion of two":   {frame: `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"name":"ok","uri":"no:"}}}`, status: 200},
		"roots":               {frame: `{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///project"}]}}`},
		"roots outside":       {frame: `{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///project"},{"uri":"file:///"}]}}`, status: 403, want: "outside the project"},
		"roots by the way":    {frame: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","inputResponses":{"a":{"roots":[{"uri":"file:///"}]}}}}`, status: 200, want: "outside the project"},
		"an error":            {frame: `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}`},
		"a batch":             {frame: "[" + call("ok", "") + `,{"jsonrpc":"2.0","method":"notifications/x"}]`},
		"a batch with one":    {frame: "[" + strings.Replace(call("ok", ""), `"id":1`, `"id":2`, 1) + "," + call("no", "") + "]", status: 200, want: `[{"jsonrpc":"2.0","id":2,"error":{"code":-32003,"message":"cloister refused this: message 2 of its batch may not be sent, so none was"`},
		"a batch of one id":   {frame: "[" + call("ok", "") + "," + call("ok", "") + "]", status: 400, want: "twice"},
		"an empty batch":      {frame: "[]", status: 400},
		"10,000 calls":        {frame: "[" + strings.TrimSuffix(strings.Repeat(call("ok", "")+",", 10_000), ",") + "]", status: 400, want: "a batch of 10000 messages"},
		"a batch in a batch":  {frame: "[[" + call("ok", "") + "]]", status: 400},
		"duplicate name":      {frame: call("ok", `,"name":"no"`), status: 400, want: `stands twice`},
		"escaped duplicate":   {frame: call("ok", `,"n\u0061me":"no"`), status: 400, want: `stands twice`},
		"duplicate deep":      {frame: call("ok", `,"arguments":{"x":[{"a":1,"a":2}]}`), status: 400, want: `stands twice`},
		"Name":                {frame: call("ok", `,"Name":"no"`), status: 400, want: "in other letters"},
		"METHOD":              {frame: `{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"tools/call"}`, status: 400, want: "in other letters"},
		"kelvin":              {frame: `{"jsonrpc":"2.0","id":1,"method":"ping","par\u0061m\u017f":{}}`, status: 400, want: "in other letters"},
		"both":                {frame: `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, status: 400},
		"version 1":           {frame: `{"jsonrpc":"1.0","id":1,"method":"ping"}`, status: 400},
		"a null id":           {frame: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, status: 400},
		"a broken id":         {frame: `{"jsonrpc":"2.0","id":1.0,"method":"ping"}`, status: 400},
		"list of params":      {frame: `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, status: 400},
		"two frames":          {frame: call("ok", "") + call("no", ""), status: 400, want: "something follows"},
		"not JSON":            {frame: "hello", status: 400, want: `"code":-32700`},
		"nothing":             {frame: "", status: 400},
		"a mark":              {frame: "\xef\xbb\xbf" + call("ok", ""), status: 400},
		"not UTF-8":           {frame: call("ok\xff", ""), status: 400},
		"half a pair":         {frame: call(`ok\ud800`, ""), status: 400, want: "surrogate"},
		"deep":                {frame: call("ok", `,"arguments":{"a":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)+"}"), status: 400, want: "deep"},
		"many":                {frame: call("ok", `,"arguments":{"a":[`+strings.Repeat("1,", 200_000)+"1]}"), status: 400, want: "values"},
		"large":               {frame: call("ok", `,"arguments":{"a":"`+strings.Repeat("x", 9<<20)+`"}`), status: 400, want: "more than"},
		"the header agrees":   {frame: call("ok", ""), header: mcp.Header{Method: "tools/call", Name: "ok"}},
		"the header does not": {frame: call("ok", ""), header: mcp.Header{Method: "tools/call", Name: "no"}, status: 400},
		"another method":      {frame: call("ok", ""), header: mcp.Header{Method: "ping"}, status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judge{}
			err := gate(j).Up(t.Context(), []byte(tc.frame), tc.header)
			if tc.status == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var r *mcp.Refused
			if !errors.As(err, &r) || r.Status != tc.status || !strings.Contains(string(r.Answer), tc.want) || r.Verdict.Reason == "" {
				t.Fatalf("%v: %+v, answer %s", err, r, r.Answer)
			}
		})
	}
}

func TestDown(t *testing.T) {
	tool := func(name, more string) string { return `{"name":"` + name + `"` + more + `}` }
	result := func(s string) string { return `{"jsonrpc":"2.0","id":1,"result":` + s + `}` }
	for name, tc := range map[string]struct {
		frame, want string // want "" for nothing, "=" for as it came
		serves      []string
		withheld    []string
		bad         bool
	}{
		"tools":           {frame: result(`{"tools":[` + tool("ok1", "") + `, ` + tool("no", "") + `],"nextCursor":"n"}`), want: result(`{"tools":[` + tool("ok1", "") + `],"nextCursor":"n"}`)},
		"all tools":       {frame: result(`{ "tools" : [` + tool("ok1", "") + `,` + tool("ok2", "") + `]}`), want: "="},
		"no tool":         {frame: result(`{"tools":[` + tool("no", "") + `]}`), want: result(`{"tools":[]}`)},
		"withheld":        {frame: result(`{"tools":[` + tool("ok1", "") + `,` + tool("ok2", "") + `]}`), withheld: []string{"ok1"}, want: result(`{"tools":[` + tool("ok2", "") + `]}`)},
		"the same name":   {frame: result(`{"tools":[` + tool("ok1", "") + `,` + tool("ok1", `,"description":"x"`) + `]}`), want: result(`{"tools":[` + tool("ok1", "") + `]}`)},
		"looks alike":     {frame: result(`{"tools":[` + tool("ok_l", "") + `,` + tool("ok-1", "") + `]}`), want: result(`{"tools":[` + tool("ok_l", "") + `]}`)},
		"no name":         {frame: result(`{"tools":[{"title":"ok"},7]}`), want: result(`{"tools":[]}`)},
		"Tools":           {frame: result(`{"Tools":[]}`), bad: true},
		"prompts":         {frame: result(`{"prompts":[` + tool("no", "") + `,` + tool("ok", "") + `]}`), want: result(`{"prompts":[` + tool("ok", "") + `]}`)},
		"resources":       {frame: result(`{"resources":[{"uri":"file:///etc"},{"uri":"ok:1"}]}`), want: result(`{"resources":[{"uri":"ok:1"}]}`)},
		"templates":       {frame: result(`{"resourceTemplates":[{"uriTemplate":"file:///{p}"},{"uriTemplate":"ok:{p}"}]}`), want: result(`{"resourceTemplates":[{"uriTemplate":"ok:{p}"}]}`)},
		"a result":        {frame: result(`{"content":[{"type":"text","text":"\u00e9"}]}`), want: "="},
		"an error":        {frame: `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`, want: "="},
		"sampling":        {frame: `{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{}}`, want: `{"jsonrpc":"2.0","id":3,"method":"cloister/refused"}`},
		"sampling served": {frame: `{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{}}`, serves: []string{"sampling/createMessage"}, want: "="},
		// As long as what stands in its place.
		"the same length":    {frame: `{"jsonrpc":"2.0","id":3,"method":"cloister/another"}`[:len(`{"jsonrpc":"2.0","id":3,"method":"cloister/`)] + `another"}`, want: `{"jsonrpc":"2.0","id":3,"method":"cloister/refused"}`},
		"elicitation":        {frame: `{"jsonrpc":"2.0","id":"a","method":"elicitation/create"}`, want: `{"jsonrpc":"2.0","id":"a","method":"cloister/refused"}`},
		"roots":              {frame: `{"jsonrpc":"2.0","id":3,"method":"roots/list"}`, want: `{"jsonrpc":"2.0","id":3,"method":"cloister/refused"}`},
		"ping":               {frame: `{"jsonrpc":"2.0","id":3,"method":"ping"}`, want: "="},
		"a call of ours":     {frame: `{"jsonrpc":"2.0","id":3,"method":"tools/call"}`, want: `{"jsonrpc":"2.0","id":3,"method":"cloister/refused"}`},
		"a notification":     {frame: `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, want: "="},
		"another":            {frame: `{"jsonrpc":"2.0","method":"sampling/createMessage"}`, want: ""},
		"a batch":            {frame: `[` + result(`{"tools":[`+tool("no", "")+`]}`) + `,{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":4,"method":"ping"}]`, want: `[` + result(`{"tools":[]}`) + `,{"jsonrpc":"2.0","id":4,"method":"ping"}]`},
		"a batch of nothing": {frame: `[{"jsonrpc":"2.0","method":"x"}]`, want: ""},
		"input":              {frame: result(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}}}`), want: `{"jsonrpc":"2.0","id":1,"error":{"code":-32003,"message":"cloister refused this: not served","data":{"error":"cloister"}}}`},
		"input served":       {frame: result(`{"inputRequests":{"a":{"method":"elicitation/create","params":{}}}}`), serves: []string{"elicitation/create"}, want: "="},
		"not JSON":           {frame: "<html>", bad: true},
		"duplicate":          {frame: result(`{"tools":[],"tools":[]}`), bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judge{serves: tc.serves, withheld: tc.withheld}
			got, err := gate(j).Down(t.Context(), []byte(tc.frame))
			var r *mcp.Refused
			if tc.bad {
				if !errors.As(err, &r) || r.Status != 400 {
					t.Fatalf("%q, %v", got, err)
				}
				return
			}
			want := tc.want
			if want == "=" {
				want = tc.frame
			}
			if err != nil || string(got) != want {
				t.Fatalf("%v\n got %s\nwant %s", err, got, want)
			}
		})
	}
}

// However a server lays a definition out, its digest is of what it says.
func TestDefinition(t *testing.T) {
	digest := func(tool string) mcp.Definition {
		j := &judge{}
		if _, err := gate(j).Down(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[`+tool+`]}}`)); err != nil || len(j.listed) != 1 {
			t.Fatalf("%v: %+v", err, j.listed)
		}
		return j.listed[0]
	}
	one := digest(`{"name":"ok","description":"a \u003cb>","inputSchema":{"type":"object","required":["x"]}}`)
	same := digest(` { "inputSchema" : {"required":["x"],"type":"object"}, "description":"a <b\u003e" , "name":"ok" } `)
	if one.Digest != same.Digest || one.Description() != "a <b>" || one.Schema() != `{"required":["x"],"type":"object"}` {
		t.Errorf("%+v\n%+v", one, same)
	}
	for _, other := range []string{
		`{"name":"ok","description":"a <c>","inputSchema":{"type":"object","required":["x"]}}`,
		`{"name":"ok","description":"a <b>","inputSchema":{"type":"object","required":["y"]}}`,
		`{"name":"ok","description":"a <b>","inputSchema":{"type":"object","required":["x"]},"_meta":{"x":1}}`,
	} {
		if digest(other).Digest == one.Digest {
			t.Errorf("%s has the digest of another", other)
		}
	}
}

func TestStream(t *testing.T) {
	msg := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"ok"},{"name":"no"}]}}`
	kept := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"ok"}]}}`
	for name, tc := range map[string]struct{ in, want, err string }{
		"one":              {in: "event: message\nid: 1\ndata: " + msg + "\n\n", want: "event: message\nid: 1\ndata: " + kept + "\n\n"},
		"CR LF":            {in: "id: 1\r\ndata: " + msg + "\r\n\r\n: x\r\n", want: "id: 1\ndata: " + kept + "\n\n: x\n"},
		"CR":               {in: "data: " + msg + "\r\r", want: "data: " + kept + "\n\n"},
		"two":              {in: "data:" + msg + "\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n", want: "data: " + kept + "\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"},
		"several lines":    {in: "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n", want: "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n"},
		"nothing to say":   {in: "id: 3\nretry: 500\ndata: \n\n", want: "id: 3\nretry: 500\ndata: \n\n"},
		"another event":    {in: "event: x\ndata: <b>\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", want: "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"},
		"endpoint":         {in: "event: endpoint\ndata: /m?s=1\n\n", want: "event: endpoint\ndata: /m?s=1\n\n"},
		"bad endpoint":     {in: "event: endpoint\ndata: https://evil.example/\n\n", err: "elsewhere"},
		"half":             {in: "data: " + msg, want: ""},
		"a mark":           {in: "\xef\xbb\xbfdata: " + msg + "\n\n", want: "data: " + kept + "\n\n"},
		"not JSON":         {in: "data: {\n\n", err: "cannot be read"},
		"a dropped":        {in: "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n: c\n", want: ": c\n"},
		"a long event":     {in: "data: " + strings.Repeat("x", 9<<20) + "\n\n", err: "more than"},
		"many data fields": {in: strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9) + "\n", err: "more than"},
	} {
		for _, how := range []string{"whole", "a byte at a time"} {
			if how != "whole" && len(tc.in) > 1<<20 {
				continue
			}
			t.Run(name+", "+how, func(t *testing.T) {
				in := io.Reader(strings.NewReader(tc.in))
				if how != "whole" {
					in = iotest.OneByteReader(in)
				}
				budget := memory(32 << 20)
				s := mcp.NewStream(t.Context(), gate(&judge{}), in, mcp.NewHold(budget), func(p string) error {
					if !strings.HasPrefix(p, "/") {
						return errors.New("it leads elsewhere")
					}
					return nil
				})
				got, err := io.ReadAll(s)
				if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) || string(got) != tc.want {
					t.Fatalf("%v\n got %q\nwant %q", err, got, tc.want)
				}
				if left := mcp.NewHold(budget); !left.Take(32 << 20) {
					t.Error("memory is held for ever")
				}
			})
		}
	}
}

// The memory of all frames together is bounded, and comes back.
func TestBudget(t *testing.T) {
	b := memory(1 << 20)
	one := mcp.NewHold(b)
	if _, err := mcp.ReadFrame(strings.NewReader(strings.Repeat("x", 400<<10)), one); err != nil {
		t.Fatal(err)
	}
	var r *mcp.Refused
	two := mcp.NewHold(b)
	if _, err := mcp.ReadFrame(strings.NewReader(strings.Repeat("x", 800<<10)), two); !errors.As(err, &r) || r.Status != 503 {
		t.Fatal(err)
	}
	two.End()
	one.End()
	three := mcp.NewHold(b)
	if got, err := mcp.ReadFrame(strings.NewReader(strings.Repeat("x", 500<<10)), three); err != nil || len(got) != 500<<10 {
		t.Fatal(err)
	}
	three.End()
	// A frame of small values needs more than its length says.
	if _, err := mcp.ReadFrame(strings.NewReader("["+strings.Repeat("1,", 10_000)+"1]"), mcp.NewHold(b)); !errors.As(err, &r) {
		t.Errorf("%v", err)
	}
	if _, err := mcp.ReadFrame(iotest.ErrReader(io.ErrUnexpectedEOF), mcp.NewHold(b)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

// What is on its way is in the budget until it is read, or nobody reads it any more.
func TestBudgetOfWhatIsSent(t *testing.T) {
	b := memory(1 << 20)
	free := func() bool {
		h := mcp.NewHold(b)
		defer h.End()
		return h.Take(1 << 20)
	}
	read := func() ([]byte, *mcp.Hold) {
		h := mcp.NewHold(b)
		text, err := mcp.ReadFrame(strings.NewReader(strings.Repeat("x", 200<<10)), h)
		if err != nil {
			t.Fatal(err)
		}
		return text, h
	}
	text, h := read()
	sent := h.Send(t.Context(), text)
	if free() {
		t.Error("what nobody has read yet is not counted")
	}
	// Who knows the length does not wait for the end.
	if n, err := io.ReadFull(sent, make([]byte, len(text))); n != len(text) || err != nil || !free() {
		t.Errorf("%d read, %v, and still counted", n, err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		text, h := read()
		h.Send(ctx, text)
		cancel()
		if synctest.Wait(); !free() {
			t.Error("what nobody will read is counted for ever")
		}
		if h.Take(1) || !free() {
			t.Error("what has ended takes more")
		}
	})
	// An event that waits in its stream is counted, the next is not read before.
	msg := `{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 100<<10) + `"}}`
	s := mcp.NewStream(t.Context(), gate(&judge{}), strings.NewReader("data: "+msg+"\n\ndata: "+msg+"\n\n"), mcp.NewHold(b), nil)
	if _, err := s.Read(make([]byte, 10)); err != nil || free() {
		t.Errorf("%v; an event that waits is not counted", err)
	}
	if rest, err := io.ReadAll(s); err != nil || len(rest) < 2*len(msg) || !free() {
		t.Errorf("%d bytes, %v, and still counted", len(rest), err)
	}
}

// A frame without an end costs what one may have.
func TestEndlessFrame(t *testing.T) {
	b := memory(96 << 20)
	var r *mcp.Refused
	in := &endless{}
	if _, err := mcp.ReadFrame(in, mcp.NewHold(b)); !errors.As(err, &r) || r.Status != 400 || in.n > mcp.MaxFrame*2 {
		t.Errorf("%v after %d bytes", err, in.n)
	}
}

type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	e.n += len(p)
	return len(p), nil
}

func FuzzFrame(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","arguments":{"a":[1.5e3,"\u00e9\ud83d\ude00",true,null]}}}`,
		`[{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"ok"},{"name":"no"}]}}]`,
		`{"jsonrpc":"2.0","id":1,"method":"x","a":1,"a":2}`, `{"a":"\ud800"}`, "[[[[", `"`, "-", "1e", "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j := &judge{}
		g := gate(j)
		if err := g.Up(context.Background(), data, mcp.Header{}); err == nil && !valid(data) {
			t.Fatalf("goes up, and is no JSON: %q", data)
		}
		out, err := g.Down(context.Background(), data)
		if err != nil {
			return
		}
		if !valid(data) || out != nil && !valid(out) {
			t.Fatalf("%q goes down as %q", data, out)
		}
		if bytes.Contains(out, []byte(`"name":"no"`)) && bytes.HasPrefix(bytes.TrimSpace(out), []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":`)) {
			t.Fatalf("a tool that may not be shown: %q", out)
		}
		// What went down is judged the same again.
		if again, err := g.Down(context.Background(), out); out != nil && (err != nil || !bytes.Equal(again, out)) && !bytes.Contains(out, []byte("cloister/refused")) {
			t.Fatalf("%q, then %q, %v", out, again, err)
		}
		_, _ = io.ReadAll(mcp.NewStream(context.Background(), g, bytes.NewReader(data), mcp.NewHold(memory(1<<20)), nil))
		_ = fmt.Sprint(mcp.Digest(data))
	})
}

// What a server says of itself, its prompts, resources and templates is held to what is
// pinned, as its tools are (PO-20).
func TestEveryTextIsPinned(t *testing.T) {
	for name, tc := range map[string]struct{ result, key, gone string }{
		"instructions": {`{"protocolVersion":"1","capabilities":{},"serverInfo":{"name":"x"},"instructions":"be good"}`, mcp.Itself, "be good"},
		"no name":      {`{"instructions":"be good"}`, mcp.Itself, "be good"},
		"a tool":       {`{"tools":[{"name":"ok","title":"T","annotations":{"readOnlyHint":true},"outputSchema":{}}]}`, "ok", "readOnlyHint"},
		"a prompt":     {`{"prompts":[{"name":"ok","title":"T","arguments":[{"name":"a"}]}]}`, "prompts/ok", `"T"`},
		"a resource":   {`{"resources":[{"uri":"ok:1","name":"n","title":"T","size":1}]}`, "resources/ok:1", `"T"`},
		"a template":   {`{"resourceTemplates":[{"uriTemplate":"ok:{x}","name":"n","title":"T"}]}`, "resources/ok:{x}", `"T"`},
	} {
		frame := []byte(`{"jsonrpc":"2.0","id":1,"result":` + tc.result + `}`)
		j := &judge{}
		out, err := gate(j).Down(t.Context(), frame)
		if err != nil || string(out) != string(frame) || len(j.listed) != 1 || j.listed[0].Name != tc.key {
			t.Fatalf("%s: %v %s, listed %+v", name, err, out, j.listed)
		}
		was := j.listed[0].Digest
		j = &judge{}
		if _, err := gate(j).Down(t.Context(), []byte(strings.Replace(string(frame), tc.gone, strings.ToLower(tc.gone)+"2", 1))); err != nil {
			continue // not JSON any more: it goes nowhere
		}
		if len(j.listed) == 1 && j.listed[0].Digest == was {
			t.Errorf("%s: another text has the same digest", name)
		}
		out, err = gate(&judge{withheld: []string{tc.key}}).Down(t.Context(), frame)
		if err != nil || strings.Contains(string(out), tc.gone) {
			t.Errorf("%s: withheld, and down goes %s %v", name, out, err)
		}
	}
	// What of a resource changes with it is no text that is pinned.
	digest := func(size string) string {
		j := &judge{}
		_, _ = gate(j).Down(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"ok:1","name":"n","size":`+size+`}]}}`))
		return j.listed[0].Digest
	}
	if digest("1") != digest("2") {
		t.Error("a resource that grew is another")
	}
}

// memory is the only session's share of a budget of which it may have most bytes.
func memory(most int64) *budget.Share { return budget.New(most, 0, 0).Share() }
