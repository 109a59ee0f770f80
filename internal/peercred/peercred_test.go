//go:build linux

package peercred_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"cloister/internal/peercred"
)

func pair(t *testing.T) (client, server *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	client, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err = l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func TestRequireOwnUser(t *testing.T) {
	client, server := pair(t)
	for name, c := range map[string]*net.UnixConn{"client": client, "server": server} {
		cred, err := peercred.Require(c, os.Getuid())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cred.PID != os.Getpid() {
			t.Errorf("%s: pid %d, want %d", name, cred.PID, os.Getpid())
		}
	}
}

func TestRequireRefusesAnotherUser(t *testing.T) {
	_, server := pair(t)
	_, err := peercred.Require(server, os.Getuid()+1)
	var m *peercred.Mismatch
	if !errors.As(err, &m) || m.Got != os.Getuid() {
		t.Fatalf("err = %v, want a Mismatch that names uid %d", err, os.Getuid())
	}
}

func TestClosedConnectionIsAnError(t *testing.T) {
	client, _ := pair(t)
	_ = client.Close()
	if _, err := peercred.Of(client); err == nil {
		t.Fatal("a closed connection has a peer")
	}
}
