package microvm_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"cloister/internal/origin"
	"cloister/sandbox"
	"cloister/sandbox/sandboxtest"
)

// gate serves an enclosure's gate: a connection hears where it was going, and one to port 9 is
// reset; every name has one address.
type gate struct{}

func (g *gate) arm(t *testing.T) func(context.Context, sandbox.Gate) error {
	return func(_ context.Context, s sandbox.Gate) error {
		l, err := net.FileListener(s.TCP4)
		if err != nil {
			return err
		}
		c, err := net.FilePacketConn(s.DNS4)
		if err != nil {
			return err
		}
		s.Close()
		t.Cleanup(func() {
			l.Close()
			c.Close()
		})
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go g.connection(c.(*net.TCPConn))
			}
		}()
		go g.names(c.(*net.UDPConn))
		return nil
	}
}

func (g *gate) connection(c *net.TCPConn) {
	defer c.Close()
	to, err := origin.Of(c)
	if err != nil || to.Port() == 9 {
		_ = c.SetLinger(0)
		return
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Fprintf(c, "%s %s", to, line)
}

func (g *gate) names(c *net.UDPConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			a := netip.MustParseAddr("198.18.0.9").As4()
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body: &dnsmessage.AResource{A: a}}}
		}
		if text, err := m.Pack(); err == nil {
			_, _ = c.WriteToUDPAddrPort(text, from)
		}
	}
}

// await waits until a file is there: as long as an emulated machine may take.
func await(t *testing.T, name string) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-deadline:
			t.Errorf("there is no %s", name)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// programs are the numbers of this box's own processes, by their executables' names.
func programs(t *testing.T, b sandbox.Box) map[string]int {
	t.Helper()
	out := map[string]int{}
	var walk func(pid int)
	walk = func(pid int) {
		at := "/proc/" + strconv.Itoa(pid)
		if cmdline, err := os.ReadFile(at + "/cmdline"); err == nil {
			first, _, _ := strings.Cut(string(cmdline), "\x00")
			out[filepath.Base(first)] = pid
		}
		threads, _ := filepath.Glob(at + "/task/*/children")
		for _, name := range threads {
			text, _ := os.ReadFile(name)
			for field := range strings.FieldsSeq(string(text)) {
				if n, err := strconv.Atoi(field); err == nil {
					walk(n)
				}
			}
		}
	}
	walk(sandbox.ProcessOf(b))
	return out
}

// walls looks at the two programs from the host: each has its filters, no privilege that it
// needs not, and the gate's network alone.
func walls(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
	list := programs(t, m.box)
	for name, pid := range list {
		open, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		if err != nil || len(open) < 3 {
			t.Errorf("%s has %d files open, %v", name, len(open), err)
		}
		for _, at := range open {
			if to, err := os.Readlink(at); err == nil && strings.Contains(to, "/templates/") {
				t.Errorf("%s has the template open", name)
			}
		}
	}
	for name, caps := range map[string]string{"qemu-system-x86_64": "0000000000000000", "virtiofsd": ""} {
		pid := list[name]
		if pid == 0 {
			t.Errorf("there is no %s among %v", name, list)
			continue
		}
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			t.Error(err)
			continue
		}
		status := string(text)
		want := []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "Seccomp_filters:\t2\n"}
		if caps != "" {
			want = append(want, "CapEff:\t"+caps+"\n", "CapBnd:\t"+caps+"\n", "CapPrm:\t"+caps+"\n")
		}
		for _, line := range want {
			if !strings.Contains(status, line) {
				t.Errorf("%s lacks %q:\n%s", name, line, status)
			}
		}
		own, err1 := os.Readlink("/proc/self/ns/net")
		its, err2 := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/net")
		if err1 != nil || err2 != nil || own == its {
			t.Errorf("%s is in the network %s, and this in %s: %v, %v", name, its, own, err1, err2)
		}
	}
}
