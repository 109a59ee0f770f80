package pair_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/ui/pair"
)

// guardian has a phone come at the second look.
type guardian struct {
	states  []api.Pairing
	looks   int
	agreed  string
	cancels int
}

func (g *guardian) Pair(context.Context, api.PairRequest) (api.Pairing, error) {
	return g.states[0], nil
}

func (g *guardian) Pairing(context.Context) (api.Pairing, error) {
	g.looks++
	return g.states[min(g.looks, len(g.states)-1)], nil
}

func (g *guardian) FinishPairing(_ context.Context, code string) (api.Device, error) {
	if code == "" {
		g.cancels++
	} else {
		g.agreed = code
	}
	return api.Device{Name: "phone"}, nil
}

func TestRun(t *testing.T) {
	waits := api.Pairing{URL: "https://my-tunnel.example/#AAAAAAAAAAAAAAAAAAAAAA", At: "127.0.0.1:61000", State: "device"}
	came, over := api.Pairing{State: "comparison", Code: "123 456"}, api.Pairing{State: "none"}
	for name, c := range map[string]struct {
		says    string
		states  []api.Pairing
		columns int
		utf8    bool
		agreed  string
		fails   string
		drawn   bool
	}{
		"yes":                  {"y\n", []api.Pairing{waits, came}, 80, true, "123 456", "", true},
		"no":                   {"n\n", []api.Pairing{waits, came}, 80, true, "", "not agreed to", true},
		"no answer":            {"", []api.Pairing{waits, came}, 80, true, "", "not agreed to", true},
		"no phone":             {"y\n", []api.Pairing{waits, over}, 80, true, "", "no phone came", true},
		"twenty columns":       {"y\n", []api.Pairing{waits, came}, 20, true, "123 456", "", false},
		"no UTF-8":             {"y\n", []api.Pairing{waits, came}, 80, false, "123 456", "", false},
		"a terminal unsized":   {"y\n", []api.Pairing{waits, came}, 0, true, "123 456", "", false},
		"it waits for a while": {"y\n", []api.Pairing{waits, waits, waits, came}, 80, true, "123 456", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := &guardian{states: c.states}
			var out, errs bytes.Buffer
			_, err := pair.Run(t.Context(), g, api.PairRequest{}, pair.Screen{In: strings.NewReader(c.says), Out: &out, Err: &errs, Columns: c.columns, UTF8: c.utf8})
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("it ends with %v", err)
			}
			if g.agreed != c.agreed || g.cancels != 1 {
				t.Errorf("agreed to %q, cancelled %d times", g.agreed, g.cancels)
			}
			if !strings.Contains(out.String(), waits.URL) || strings.Contains(out.String(), "▀") != c.drawn {
				t.Errorf("it shows %q", out.String())
			}
			if !strings.Contains(errs.String(), "could answer as the phone") {
				t.Errorf("it does not say whom to trust: %q", errs.String())
			}
			if c.agreed != "" && !strings.Contains(errs.String(), "Does the phone show 123 456? [y/N]") {
				t.Errorf("it asks %q", errs.String())
			}
		})
	}
}

// slow is a person who presses Ctrl-C at the question.
type slow struct {
	interrupt func()
	ended     chan struct{}
}

func (s slow) Read([]byte) (int, error) {
	s.interrupt()
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second): // so that a Run which waits for it ends too
	}
	return 0, io.EOF
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := &guardian{states: []api.Pairing{{State: "device"}, {State: "comparison", Code: "123 456"}}}
	in := slow{cancel, make(chan struct{})}
	_, err := pair.Run(ctx, g, api.PairRequest{}, pair.Screen{In: in, Out: io.Discard, Err: io.Discard})
	close(in.ended)
	if !errors.Is(err, context.Canceled) || g.agreed != "" || g.cancels != 1 {
		t.Errorf("%v, agreed to %q, cancelled %d times", err, g.agreed, g.cancels)
	}
}

func TestPicture(t *testing.T) {
	rows := pair.Picture("https://my-tunnel.example/#AAAAAAAAAAAAAAAAAAAAAA")
	if len(rows) < 15 || len(rows) > 25 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		if strings.Trim(row, "\x1b[30;17m ▀▄█") != "" {
			t.Errorf("a row has more than blocks: %q", row)
		}
	}
	if pair.Picture(strings.Repeat("x", 1<<20)) != nil {
		t.Error("a megabyte is a code")
	}
}

func TestUTF8(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "en_GB.UTF-8"}, true},
		{map[string]string{"LANG": "C.utf8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "C", "LC_CTYPE": "C.UTF-8"}, true},
	} {
		if got := pair.UTF8(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %t", c.env, got)
		}
	}
}
