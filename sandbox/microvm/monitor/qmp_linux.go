package monitor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// qmp is the way to tell QEMU what to do (QEMU Machine Protocol), while a machine is kept or goes on from a template.
// It is closed before anything of a session is in the machine, and what is read of it is bounded all the same.
type qmp struct {
	to *net.UnixConn
	in *bufio.Reader
	// migration is how the last one went, which QEMU reports in between.
	migration string
}

// mostLine bounds what QEMU says in one line, mostSaid all of it.
const mostLine, mostSaid = 64 << 10, 1 << 20

func newQMP(to *net.UnixConn) *qmp {
	return &qmp{to: to, in: bufio.NewReaderSize(io.LimitReader(to, mostSaid), mostLine)}
}

// said is a line of QEMU's.
type said struct {
	Greeting *struct{}       `json:"QMP"`
	Return   json.RawMessage `json:"return"`
	Error    *struct {
		Desc string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
	Data  struct {
		Status string `json:"status"`
	} `json:"data"`
}

func (q *qmp) hear() (s said, err error) {
	line, err := q.in.ReadSlice('\n')
	if err != nil {
		return s, fmt.Errorf("hear QEMU: %w", err)
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return s, fmt.Errorf("hear QEMU: %w", err)
	}
	if s.Event == "MIGRATION" {
		q.migration = s.Data.Status
	}
	return s, nil
}

// do has QEMU do something, with arguments and perhaps a file.
func (q *qmp) do(what string, arguments any, files ...*os.File) error {
	text, err := json.Marshal(map[string]any{"execute": what, "arguments": arguments})
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(int(files[0].Fd()))
	}
	if _, _, err := q.to.WriteMsgUnix(append(text, '\n'), rights, nil); err != nil {
		return fmt.Errorf("tell QEMU to %s: %w", what, err)
	}
	for {
		s, err := q.hear()
		switch {
		case err != nil:
			return err
		case s.Error != nil:
			return fmt.Errorf("QEMU refuses to %s: %s", what, strings.ReplaceAll(s.Error.Desc, "\n", "; "))
		case s.Return != nil:
			return nil
		}
	}
}

// none are the arguments of what has none.
type none struct{}

// begin prepares a migration by a file. Its stream has the devices' state, and not the memory, which is a file itself.
func (q *qmp) begin(state *os.File) error {
	type capability struct {
		Name  string `json:"capability"`
		State bool   `json:"state"`
	}
	if err := q.do("qmp_capabilities", none{}); err != nil {
		return err
	}
	both := []capability{{"x-ignore-shared", true}, {"events", true}}
	if err := q.do("migrate-set-capabilities", map[string]any{"capabilities": both}); err != nil {
		return err
	}
	return q.do("getfd", map[string]any{"fdname": "state"}, state)
}

// migrated has a migration begin and waits for its end.
func (q *qmp) migrated(what string) error {
	if err := q.do(what, map[string]any{"uri": "fd:state"}); err != nil {
		return err
	}
	for q.migration != "completed" {
		if q.migration == "failed" || q.migration == "cancelled" {
			return errors.New("QEMU's migration: " + q.migration)
		}
		if _, err := q.hear(); err != nil {
			return err
		}
	}
	return nil
}

// save writes the devices' state of the machine, which stands still from then on.
func (q *qmp) save(to *os.File) error {
	if err := q.begin(to); err != nil {
		return err
	}
	if err := q.do("stop", none{}); err != nil {
		return err
	}
	return q.migrated("migrate")
}

// load has a machine that waits go on with the state that is read.
func (q *qmp) load(from *os.File) error {
	if err := q.begin(from); err != nil {
		return err
	}
	return q.migrated("migrate-incoming")
}
