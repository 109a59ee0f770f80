//go:build linux

package guardian

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/guardian/process"
	"cloister/guardian/sessionctx"
	"cloister/internal/passfd"
	"cloister/session/stats"
)

// What is refused while a session's egress drains is in the numbers that the next
// guardian goes on from.
func TestLastNumbers(t *testing.T) {
	at := net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"}
	door, err := net.ListenUnix("unix", &at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = door.Close() }()
	shim, err := net.DialUnix("unix", nil, &at)
	if err != nil {
		t.Fatal(err)
	}
	near, err := door.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	far := passfd.New(shim, nil, api.MaxFrame)
	defer func() { _ = far.Close() }()

	self, err := process.Hold(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	g := &guardian{started: time.Now(), queue: &approval.Queue{}}
	g.ctx, g.stop = context.WithCancelCause(t.Context())
	l := &live{g: g, shim: self, conn: passfd.New(near, nil, api.MaxFrame), Context: sessionctx.Context{Tally: stats.New(api.SessionSummary{}), Queue: g.queue, Records: g.records}, gone: make(chan struct{})}
	// It ends when the link has been read to its end, which is later than the guardian's.
	l.ctx, l.cancel = context.WithCancel(t.Context())
	l.served.Go(func() {
		<-l.ctx.Done()
		l.Tally.Refused(api.Refusal{Host: "bad.example"})
	})
	g.stop(nil)
	l.serve()

	var last api.Frame
	for {
		line, err := far.Read()
		if err != nil {
			break // the shim sees its end
		}
		if err := json.Unmarshal(line, &last); err != nil {
			t.Fatal(err)
		}
	}
	if last.Summary == nil || last.Summary.Denied != 1 {
		t.Errorf("the last numbers are %+v", last.Summary)
	}
}
