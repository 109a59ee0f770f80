package microvm_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox/microvm/monitor"
	"cloister/sandbox/sandboxtest"
)

// mostBeside is what the monitor and the server of files may take, in MiB, whatever a guest does.
const mostBeside = 192

// beside is what they take, in MiB.
func beside(t *testing.T, m *machine) int {
	t.Helper()
	all := 0
	list := programs(t, m.box)
	for _, name := range []string{monitor.Name, "virtiofsd"} {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(list[name]) + "/smaps_rollup")
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) == 3 && words[0] == "Private_Dirty:" { // the guest's memory is shared
				n, _ := strconv.Atoi(words[1])
				all += n >> 10
			}
		}
	}
	return all
}

// manyConnections: a payload that opens 4,096 connections has those that the guest hands on, the rest are refused, and what
// they take is bounded. Afterwards there are others.
func manyConnections(t *testing.T, _ *sandboxtest.Harness, m *machine, _ *gate) {
	text, code := m.sh(t, `python3 -c '
import socket
kept, open_ = [], 0
for i in range(4096):
    c = socket.socket(); c.setblocking(False); c.connect_ex(("198.18.7.7", 4242)); kept.append(c)
import time
for c in kept:
    c.setblocking(True); c.settimeout(60)
    try:
        c.sendall(b"held\n"); open_ += c.recv(4) != b""
    except OSError:
        pass
print(open_)' 2>&1`)
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || code != 0 || n == 0 || n > 4096 {
		t.Errorf("%d, %q", code, text)
	}
	t.Logf("%d of 4096 were answered; the monitor and the server take %d MiB", n, beside(t, m))
	if took := beside(t, m); took > mostBeside {
		t.Errorf("they take %d MiB", took)
	}
	if text, _ := m.sh(t, `bash -c 'exec 3<>/dev/tcp/198.18.7.7/4242; echo hello >&3; cat <&3'`); text != "198.18.7.7:4242 hello\n" {
		t.Errorf("afterwards: %q", text)
	}
}

// flooded: of what a guest writes to its console the monitor keeps the end.
func flooded(t *testing.T, h *sandboxtest.Harness, m *machine, _ *gate) {
	before := beside(t, m)
	text := asRoot(t, h, m, "mkdir -p /tmp/dev && mount -t devtmpfs dev /tmp/dev && test -c /tmp/dev/ttyS0",
		"head -c 300000 /dev/zero | tr '\\0' x >/tmp/dev/ttyS0; test $? = 0")
	if !strings.Contains(text, "did mkdir") { // the control
		t.Errorf("it has no console: %s", text)
	}
	after := beside(t, m)
	t.Logf("before %d MiB, after %d MiB: %s", before, after, text)
	if after > before+32 || after > mostBeside {
		t.Errorf("they take %d MiB, and took %d before", after, before)
	}
	if text, code := m.sh(t, "cat file"); code != 0 || text == "" {
		t.Errorf("afterwards: %d, %q", code, text)
	}
}

// manyFiles: files with the longest names, folders in folders and a name that is too long leave the server what it was. Its limit
// is lowered meanwhile; whether that is reached depends on what the guest's kernel lets go of, and either is well.
func manyFiles(t *testing.T, h *sandboxtest.Harness, m *machine, _ *gate) {
	pid := programs(t, m.box)["virtiofsd"]
	// What is called below is seen before the limit.
	if text, code := m.sh(t, "python3 -c 'import os' && timeout 5 rm -rf none && cat file"); code != 0 {
		t.Fatal(text)
	}
	open, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) + 600), Max: was.Max}, nil); err != nil {
		t.Fatal(err)
	}
	text, code := m.sh(t, `python3 -c '
import errno, os
def tried(name, do):
    try:
        do()
        print(name, "done")
    except OSError as e:
        print(name, errno.errorcode[e.errno])
def deep():
    for i in range(15):
        os.mkdir("d" * 250); os.chdir("d" * 250)
def many():
    for i in range(1000):
        open("%0250d" % i, "w").close()
was = os.getcwd()
tried("deep", deep)
os.chdir(was)
tried("name", lambda: open("n" * 256, "w"))
os.mkdir("many"); os.chdir("many")
tried("many", many)' 2>&1`)
	if code != 0 || !strings.HasPrefix(text, "deep done\nname ENAMETOOLONG\nmany ") {
		t.Errorf("%d, %q", code, text)
	}
	list, err := os.ReadDir(filepath.Join(h.Project, "many"))
	t.Logf("%d files were made, %v; the monitor and the server take %d MiB", len(list), err, beside(t, m))
	if len(list) == 0 {
		t.Errorf("%d files were made, %v", len(list), err)
	}
	if took := beside(t, m); took > mostBeside {
		t.Errorf("they take %d MiB", took)
	}
	// With the old limit the guest's next command can be started, also of one that lets go of nothing.
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil); err != nil {
		t.Fatal(err)
	}
	text = asRoot(t, h, m, "echo 2 >/proc/sys/vm/drop_caches", "cat file")
	if text, code := m.sh(t, "rm -rf many "+strings.Repeat("d", 250)); code != 0 {
		t.Errorf("%d, %s", code, text)
	}
	if !strings.Contains(text, "did cat file\n") {
		t.Errorf("afterwards: %s", text)
	}
}
