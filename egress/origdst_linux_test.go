package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"cloister/egress"
	"cloister/egress/verdict"
	"cloister/internal/needs"
)

const childMark = "CLOISTER_EGRESS_TEST_CHILD"

// TestOriginalDestination runs the engine behind real NAT rules: it must learn
// from the kernel where a program wanted to go. A child process makes its own
// network namespace, since that cannot be undone.
func TestOriginalDestination(t *testing.T) {
	if os.Getenv(childMark) != "" {
		originalDestination(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOriginalDestination$", "-test.v")
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil && strings.Contains(string(out), "--- PASS"):
	case errors.As(err, &failed) || err == nil:
		t.Errorf("child: %v\n%s", err, out)
	default:
		needs.Missing(t, "userns", err)
	}
}

func originalDestination(t *testing.T) {
	buildGate(t)
	l := egress.Listeners{TCP: []net.Listener{listenAt(t, "tcp4", "198.18.0.1:1"), listenAt(t, "tcp6", "[fd00:c1::1]:1")}}
	for _, network := range []string{"udp4", "udp6"} {
		pc, err := net.ListenPacket(network, ":53")
		if err != nil {
			t.Fatal(err)
		}
		l.DNS = append(l.DNS, pc)
	}
	w := &world{t: t, rules: map[string]verdict.Answer{"db.test": allow()}, told: make(chan struct{}, 1)}
	u := serve(t, echo)
	engine, err := egress.New(egress.Config{Session: "x", Decider: w, Journal: w, Hosts: map[string]string{"db.test": u.addr}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Serve(ctx, l) }()
	defer func() { cancel(); <-done }()

	for _, server := range []string{"198.18.0.1:53", "8.8.8.8:53", "[2001:4860:4860::8888]:53", "[fd00:c1::1]:53"} {
		r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server)
		}}
		addrs, err := r.LookupNetIP(t.Context(), "ip4", "db.test")
		if err != nil {
			t.Fatalf("%s: %v", server, err)
		}
		c, err := net.Dial("tcp", fmt.Sprintf("%s:5000", addrs[0].Unmap()))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		write(t, c, "\x01")
		readN(t, c, 1)
		c.Close()
	}
	for _, dst := range []string{"203.0.113.9:443", "[2001:db8::9]:8443"} {
		c, err := net.Dial("tcp", dst)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, reset := readAll(t, c); !reset {
			t.Errorf("%s: not reset", dst)
		}
		c.Close()
		w.mu.Lock()
		if q := w.queries[len(w.queries)-1]; q.Authority.String() != dst || q.Kind != verdict.Connect {
			t.Errorf("%s was decided as %+v", dst, q)
		}
		w.mu.Unlock()
	}
	c, err := net.Dial("tcp", "198.18.0.1:3128")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	write(t, c, "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")
	if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 403 ") {
		t.Errorf("proxy: %q", got)
	}
}

func listenAt(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			if strings.HasSuffix(network, "6") {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
			}
		}), err)
	}}
	ln, err := lc.Listen(t.Context(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// buildGate makes what the native driver makes: every address local, TCP to
// the gate.
func buildGate(t *testing.T) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, cidr := range []string{"0.0.0.0/0", "::/0"} {
		_, dst, _ := net.ParseCIDR(cidr)
		err := netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST})
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	table := c.AddTable(&nftables.Table{Name: "gate", Family: nftables.TableFamilyINet})
	chain := c.AddChain(&nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	for _, f := range []struct {
		proto  byte
		family uint32
		offset uint32
		length uint32
		spare  []byte
		gate   net.IP
	}{
		{unix.NFPROTO_IPV4, unix.NFPROTO_IPV4, 16, 1, []byte{127}, net.IPv4(198, 18, 0, 1).To4()},
		{unix.NFPROTO_IPV6, unix.NFPROTO_IPV6, 24, 16, net.IPv6loopback, net.ParseIP("fd00:c1::1")},
	} {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{f.proto}},
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.offset, Len: f.length},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: f.spare},
			&expr.Immediate{Register: 1, Data: f.gate},
			&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(1)},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: f.family, RegAddrMin: 1, RegProtoMin: 2, Specified: true},
		}})
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}
