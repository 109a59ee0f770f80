package monitor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/passfd"
	"cloister/sandbox/microvm/template"
)

// control is a QEMU that answers as a test has it, and this side of its socket.
func control(t *testing.T, answer func(c *net.UnixConn)) *qmp {
	t.Helper()
	pair, err := passfd.Pair(unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "qmp")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		answer(ends[1])
		_ = ends[1].Close()
	}()
	t.Cleanup(func() {
		_ = ends[0].Close()
		<-over
	})
	return newQMP(ends[0])
}

// obedient does what it hears, and lists it. A migration ends as said.
func obedient(end string, list *[]string) func(*net.UnixConn) {
	return func(c *net.UnixConn) {
		in := bufio.NewScanner(c)
		_, _ = io.WriteString(c, `{"QMP": {"version": {}, "capabilities": []}}`+"\n")
		for in.Scan() {
			var asked struct {
				Execute string `json:"execute"`
			}
			if json.Unmarshal(in.Bytes(), &asked) != nil {
				return
			}
			*list = append(*list, asked.Execute)
			_, _ = io.WriteString(c, `{"event": "STOP", "timestamp": {"seconds": 1}}`+"\n"+`{"return": {}}`+"\n")
			if strings.HasPrefix(asked.Execute, "migrate") && !strings.Contains(asked.Execute, "set") {
				for _, status := range []string{"setup", "active", end} {
					_, _ = io.WriteString(c, `{"event": "MIGRATION", "data": {"status": "`+status+`"}}`+"\n")
				}
			}
		}
	}
}

// TestQEMU: a machine is kept and goes on by these words, in this order.
func TestQEMU(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for do, c := range map[string]struct {
		run  func(*qmp) error
		want string
	}{
		"save": {func(q *qmp) error { return q.save(null) }, "qmp_capabilities migrate-set-capabilities getfd stop migrate"},
		"load": {func(q *qmp) error { return q.load(null) }, "qmp_capabilities migrate-set-capabilities getfd migrate-incoming"},
	} {
		for _, end := range []string{"completed", "failed"} {
			var list []string
			err := c.run(control(t, obedient(end, &list)))
			if (err == nil) != (end == "completed") {
				t.Errorf("%s, %s: %v", do, end, err)
			}
			if got := strings.Join(list, " "); got != c.want {
				t.Errorf("%s: %s", do, got)
			}
		}
	}
}

// TestQEMUThatLies: what QEMU says without end, or what is no word of it, ends the start, and takes no memory.
func TestQEMUThatLies(t *testing.T) {
	for name, line := range map[string]string{
		"a line without end": strings.Repeat("x", 4096),
		"lines without end":  `{"event": "RESUME", "data": {"a": "` + strings.Repeat("x", 1000) + `"}}` + "\n",
		"greetings":          `{"QMP": {}}` + "\n",
		"no JSON":            "return\n",
		"other JSON":         `[1, 2]` + "\n",
		"an error":           `{"error": {"desc": "no\nno"}}` + "\n",
	} {
		var wrote atomic.Int64
		q := control(t, func(c *net.UnixConn) {
			for {
				n, err := io.WriteString(c, line)
				wrote.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		err := q.do("stop", none{})
		_ = q.to.Close()
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if n, most := wrote.Load(), int64(mostSaid+4<<20); n > most { // and what the socket holds
			t.Errorf("%s: %d bytes were read", name, n)
		}
	}
}

// TestGoOnFromAnother: a template of another digest is refused before QEMU hears of it.
func TestGoOnFromAnother(t *testing.T) {
	memory, err := newMemory(1)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	var text bytes.Buffer
	if err := template.Write(&text, memory, []byte("state")); err != nil {
		t.Fatal(err)
	}
	at := t.TempDir() + "/template"
	if err := os.WriteFile(at, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	q := control(t, obedient("completed", &list))
	err = goOn(started{memory: memory, qmp: q}, f, Order{Memory: 1, Template: strings.Repeat("0", 64)})
	if !errors.Is(err, template.ErrChanged) || len(list) > 0 {
		t.Errorf("%v, and QEMU heard %q", err, list)
	}
}

// TestHungStart: a guest that does not come, from a template or not, ends the start by one line.
func TestHungStart(t *testing.T) {
	b := &box{o: Order{Boot: 0}, over: make(chan error), gone: make(chan error)}
	let := make(chan struct{})
	defer close(let)
	began := time.Now()
	err := b.within(&machine{o: b.o, gone: b.gone}, func() error { <-let; return nil })
	if err == nil || err.Error() != "the guest did not boot within 0 s" || time.Since(began) > 10*time.Second {
		t.Errorf("%v", err)
	}
}
