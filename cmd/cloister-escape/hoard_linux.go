package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/escape/hoard"
)

// hoarding is hoard KIND NAME PATH NUMBER SECONDS [ADDRESS]: so many peers of a kind,
// which say on how many connections someone still was at the end, or at SIGTERM; or relay ADDRESS NAME
// SECONDS KIND NUMBER, which puts an intermediary that has no bounds between them and
// that server, and says how many MiB it came to.
func hoarding(words []string) error {
	if len(words) < 5 {
		return errors.New("hoard: which, to whom, how many, how long?")
	}
	relay := words[0] == "relay"
	if relay {
		words = []string{words[4], words[2], "/", words[5], words[3], words[1]}
	}
	kinds := append(hoard.Kinds(), hoard.Asking()...)
	i := slices.IndexFunc(kinds, func(k hoard.Kind) bool { return k.Name == words[0] })
	n, err := strconv.Atoi(words[3])
	seconds, serr := strconv.Atoi(words[4])
	if err := errors.Join(err, serr); err != nil || i < 0 {
		return fmt.Errorf("hoard: %q: %w", words, err)
	}
	addr, lasts := words[1]+":443", time.Duration(seconds)*time.Second
	if len(words) > 5 {
		addr = words[5]
	}
	if relay {
		return between(kinds[i], addr, words[1], n, lasts)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM) //nolint:forbidigo // the program begins here
	defer stop()
	fmt.Println(hoard.Client(ctx, kinds[i], addr, words[1], words[2], n, lasts), "stayed")
	return nil
}

// mostMemory is what a guardian may come to, in MiB.
const mostMemory = 256

// between is an intermediary in this process, which ends once it has shown what it is for.
func between(kind hoard.Kind, to, name string, n int, lasts time.Duration) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	cert := s.TLS.Certificates[0]
	s.Close()
	relay := hoard.Relay(l, tls.Certificate{Certificate: cert.Certificate, PrivateKey: cert.PrivateKey}, to, name)
	defer relay.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	peers, err := os.StartProcess(self, []string{self, "hoard", kind.Name, name, "/ok/hoard/", strconv.Itoa(n),
		strconv.Itoa(int(lasts.Seconds())), l.Addr().String()}, &os.ProcAttr{})
	if err != nil {
		return err
	}
	most := 0
	for end := time.Now().Add(lasts); time.Now().Before(end) && most>>10 <= mostMemory; {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a sample
		if most, err = peak(); err != nil {
			break
		}
	}
	_ = peers.Kill()
	_, _ = peers.Wait()
	fmt.Println("at most", most>>10, "MiB")
	return err
}

// peak is the most memory that this process had, in KiB.
func peak() (int, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	return strconv.Atoi(strings.TrimSpace(line))
}
