package pod

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/origin"
	"cloister/sandbox/gate"
	"cloister/sandbox/gate/lay"
	"cloister/sandbox/kubernetes/link"
)

// dialWithin bounds the time until the shim is reached.
const dialWithin = 30 * time.Second

// runGate is the gate's life. It returns when the gate must not stand any more.
func runGate(ctx context.Context, order string) error {
	var o link.Order
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return fmt.Errorf("read the gate's order: %w", err)
	}
	// Once: what ran behind an earlier gate of this pod may have kept anything.
	if err := os.Mkdir(opened, 0o700); err != nil {
		return fmt.Errorf("a gate has stood in this pod before: %w", err)
	}
	w, err := wall()
	if err != nil {
		return err
	}
	watched, err := watchInterfaces()
	if err != nil {
		return err
	}
	uplink, err := takeInterfaces()
	if err != nil {
		return err
	}
	if err := onlyLoopback(); err != nil {
		return err
	}
	c, err := uplink.dial(ctx, o.Address)
	if err != nil {
		return fmt.Errorf("reach the shim: %w", err)
	}
	g, err := link.Dialed(ctx, o, c)
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }() // it is over
	setup, err := g.Setup(ctx)
	if err != nil {
		return fmt.Errorf("ask the shim for the files: %w", err)
	}
	doors, err := furnish(setup)
	if err != nil {
		return err
	}
	defer doors.Close()
	over := make(chan error, 8)
	go keepOpen(ctx, doors, g, over)
	w.serve(ctx, g, over)
	go func() { over <- w.tell(ctx, g) }()
	go func() { over <- g.Asked(ctx, dialInside) }()
	go func() { over <- <-watched }()
	gone, err := g.Open(ctx)
	if err != nil {
		return err
	}
	if err := os.Mkdir(stands, 0o700); err != nil {
		return err
	}
	if err := onlyLoopback(); err != nil { // since then the watch tells
		return err
	}
	select {
	case err := <-over:
		return err
	case <-gone:
		return errors.New("the shim is gone")
	case <-ctx.Done():
		return nil
	}
}

// sockets are the gate's, in the network that the agent has.
type sockets struct {
	tcp, dnsTCP []*net.TCPListener
	dns         []*net.UDPConn
	refused     *os.File // the kernel's log of refused datagrams
}

// tell passes on what the kernel tells of refused datagrams.
func (w *sockets) tell(ctx context.Context, g *link.Gate) error {
	r, out := io.Pipe()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := w.refused.Read(buf)
			if errors.Is(err, unix.ENOBUFS) {
				continue // more than it had room for: they are refused all the same
			}
			if err == nil {
				err = link.WriteFrame(out, buf[:n])
			}
			if err != nil {
				_ = out.CloseWithError(err)
				return
			}
		}
	}()
	if err := g.Refused(ctx, r); err != nil {
		return fmt.Errorf("pass on the log of refusals: %w", err)
	}
	return errors.New("the shim reads the log of refusals no more")
}

// dialInside connects to a port that something in the pod listens on.
func dialInside(ctx context.Context, port uint16) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: dialWithin}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		c, err = d.DialContext(ctx, "tcp", net.JoinHostPort("::1", strconv.Itoa(int(port))))
	}
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil // it was dialled as one
}

// wall makes the gate's routes, rules and sockets.
func wall() (*sockets, error) {
	v6 := gate.HaveIPv6()
	routes, rules := gate.Messages(v6)
	if err := lay.Converse(unix.NETLINK_ROUTE, routes); err != nil {
		return nil, fmt.Errorf("set routes: %w", err)
	}
	if err := lay.Converse(unix.NETLINK_NETFILTER, rules); err != nil {
		return nil, fmt.Errorf("set packet rules: %w", err)
	}
	w := &sockets{}
	for _, s := range gate.Sockets(v6) {
		if err := w.open(s); err != nil {
			return nil, fmt.Errorf("open %s socket: %w", s.Name, err)
		}
	}
	fd, err := lay.Say(unix.NETLINK_NETFILTER, gate.Refusals())
	if err != nil {
		return nil, fmt.Errorf("read the log of refusals: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("read the log of refusals: %w", err)
	}
	w.refused = os.NewFile(uintptr(fd), "refusals")
	return w, nil
}

func (w *sockets) open(s gate.Socket) error {
	f, err := lay.Listen(s)
	if err != nil {
		return err
	}
	defer f.Close() // what is made of it has a descriptor of its own
	if s.Type == unix.SOCK_DGRAM {
		c, err := net.FilePacketConn(f)
		if err != nil {
			return err
		}
		w.dns = append(w.dns, c.(*net.UDPConn)) // the kernel's datagram socket of an IP family
		return nil
	}
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	if s.Addr.Port() == gate.DNSPort {
		w.dnsTCP = append(w.dnsTCP, l.(*net.TCPListener)) // as above
	} else {
		w.tcp = append(w.tcp, l.(*net.TCPListener))
	}
	return nil
}

// serve hands all that comes on to the shim. A socket that fails ends the gate.
func (w *sockets) serve(ctx context.Context, g *link.Gate, over chan<- error) {
	accept := func(l *net.TCPListener, handle func(*net.TCPConn)) {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				over <- err
				return
			}
			go handle(c)
		}
	}
	for _, l := range w.tcp {
		go accept(l, func(c *net.TCPConn) {
			to, err := origin.Of(c)
			if err != nil {
				_ = c.SetLinger(0)
				_ = c.Close() // reset
				return
			}
			g.TCP(ctx, c, to)
		})
	}
	for _, l := range w.dnsTCP {
		go accept(l, func(c *net.TCPConn) { g.Questions(ctx, c) })
	}
	for _, c := range w.dns {
		go func() { over <- questions(ctx, g, c) }()
	}
}

// asking bounds the questions that wait for an answer; a further one is lost, as datagrams are.
const asking = 256

// questions answers datagrams from the address that was asked.
func questions(ctx context.Context, g *link.Gate, c *net.UDPConn) error {
	if err := origin.Report(c); err != nil {
		return fmt.Errorf("serve DNS: %w", err)
	}
	slots := make(chan struct{}, asking)
	buf, oob := make([]byte, link.MaxDatagram), make([]byte, 128)
	for {
		n, oobn, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			return fmt.Errorf("serve DNS: %w", err)
		}
		question, back := append([]byte{}, buf[:n]...), origin.Reply(oob[:oobn])
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		go func() {
			defer func() { <-slots }()
			if answer, err := g.DNS(ctx, question); err == nil {
				_, _, _ = c.WriteMsgUDPAddrPort(fitting(question, answer), back, from) // lost, as datagrams are
			}
		}()
	}
}

// plainDatagram is what a program takes that does not say otherwise (RFC 1035, 4.2.1).
const plainDatagram = 512

// fitting says that an answer was too long where it is: the program asks again by TCP.
func fitting(question, answer []byte) []byte {
	if len(answer) <= plainDatagram || len(question) < 12 {
		return answer
	}
	short := append([]byte{}, question...)
	copy(short[:4], answer[:4])
	short[2] |= 2                            // TC
	binary.BigEndian.PutUint16(short[6:], 0) // no answers
	binary.BigEndian.PutUint16(short[8:], 0)
	return short
}

// furnish makes what the agent's container has of the volume, and the door there whose end is
// the gate's.
func furnish(s link.Setup) (net.Listener, error) {
	inside := filepath.Join(Volume, Inside)
	for _, dir := range []string{inside, filepath.Join(inside, "bin"), filepath.Join(Volume, Files)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if err := copySelf(filepath.Join(inside, Name)); err != nil {
		return nil, fmt.Errorf("copy this program: %w", err)
	}
	if err := os.WriteFile(inside+proof, []byte(s.Proof), 0o444); err != nil {
		return nil, err
	}
	for i, f := range s.Files {
		at := filepath.Join(Volume, Files, strconv.Itoa(i))
		if err := os.WriteFile(at, f.Data, 0o644); err != nil {
			return nil, err
		}
		if err := os.Chmod(at, os.FileMode(f.Mode&0o777)); err != nil {
			return nil, err
		}
	}
	for _, l := range s.Links {
		rel, ok := strings.CutPrefix(string(l.Path), Folder+"/")
		if !ok || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("the shim wants a link at %s", l.Path)
		}
		at := filepath.Join(inside, rel)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return nil, err
		}
		if err := os.Symlink(l.Target, at); err != nil {
			return nil, err
		}
	}
	doors, err := net.Listen("unix", inside+door)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(inside+door, 0o666); err != nil {
		return nil, errors.Join(err, doors.Close())
	}
	return doors, nil
}

// most bounds the connections to the door: one is needed.
const most = 64

// keepOpen holds connections until the gate ends. That of the agent's first process, which says so
// before anything else runs there, is the shim's; when it ends so does the gate.
func keepOpen(ctx context.Context, l net.Listener, g *link.Gate, over chan<- error) {
	var mu sync.Mutex
	var held []net.Conn
	var begun sync.Once
	for {
		c, err := l.Accept()
		if err != nil {
			return // it is over, or out of descriptors: the door is there as long as the process
		}
		mu.Lock()
		full := len(held) >= most
		if !full {
			held = append(held, c)
		}
		mu.Unlock()
		if full {
			c.Close()
			continue
		}
		go func() {
			hello := make([]byte, len(link.Hello))
			if _, err := io.ReadFull(c, hello); err != nil || string(hello) != link.Hello {
				return
			}
			begun.Do(func() {
				err := g.Init(ctx, c)
				over <- errors.Join(errors.New("the agent's first process is gone"), err)
			})
		}()
	}
}

func copySelf(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
