package main

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"weak"

	"crypto/rand"

	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/mm"
	"gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/usermem"
)

// OpenSSL's generators of random numbers live in the memory of a process. They seed themselves
// anew when getpid(2) answers another number than before (openssl_get_fork_id: that is how they
// notice a fork), and nothing else would tell them that their memory was copied. So in a sandbox
// that was filled with a saved memory, getpid answers OpenSSL's code, and no other, with a
// number of this sandbox's own. OpenSSL only compares it with the last.

// restored is the variable that the specification of a restored box has. No process sees it:
// each has the environment that is in its memory.
const restored = "CLOISTER_RESTORED=1"

// forkIDs answers getpid.
type forkIDs struct {
	real kernel.SyscallFn
	once sync.Once
	salt uint32 // 0: this sandbox was not filled with a saved memory

	mu    sync.Mutex
	known map[caller]bool // whose answers are OpenSSL's
	exes  map[weak.Pointer[mm.MemoryManager]][]span
}

type caller struct {
	mm weak.Pointer[mm.MemoryManager]
	at uint64
}

// span is where in an executable OpenSSL's own code lies.
type span struct{ from, to uint64 }

// mostCallers bounds what is remembered; then it is learned anew.
const mostCallers = 4096

// giveForkIDs puts itself before getpid in the table of system calls.
func giveForkIDs() {
	for _, table := range kernel.SyscallTables() {
		number, err := table.LookupNo("getpid")
		if err != nil {
			continue
		}
		f := &forkIDs{real: linux.Getpid, known: map[caller]bool{}, exes: map[weak.Pointer[mm.MemoryManager]][]span{}}
		call := table.Table[number]
		call.Fn = f.getpid
		table.Table[number] = call
		table.Init()
	}
}

func (f *forkIDs) getpid(t *kernel.Task, n uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
	pid, ctl, err := f.real(t, n, args)
	f.once.Do(func() { f.salt = saltOf(t) })
	if f.salt == 0 || err != nil || !f.asksOpenSSL(t) {
		return pid, ctl, err
	}
	return uintptr((uint32(pid) + f.salt) & (1<<31 - 1)), ctl, err
}

// saltOf is a number of this sandbox's own, or 0 in one that was started anew.
func saltOf(t *kernel.Task) uint32 {
	k := t.Kernel()
	saver := k.Saver()
	if saver == nil || !slices.Contains(saver.SpecEnviron(k.ContainerName(t.ContainerID())), restored) {
		return 0
	}
	var b [4]byte
	_, _ = rand.Read(b[:])                          // it never fails
	return binary.NativeEndian.Uint32(b[:]) | 1<<22 // more than any number of a process
}

// asksOpenSSL reports whether the function that called the library's getpid is OpenSSL's. The
// library's is a leaf: at its system call the stack's top is where it returns to.
func (f *forkIDs) asksOpenSSL(t *kernel.Task) bool {
	var word [8]byte
	if _, err := t.CopyInBytes(hostarch.Addr(t.Arch().Stack()), word[:]); err != nil {
		return false
	}
	m := t.MemoryManager()
	who := caller{weak.Make(m), binary.NativeEndian.Uint64(word[:])}
	f.mu.Lock()
	defer f.mu.Unlock()
	is, ok := f.known[who]
	if !ok {
		if len(f.known) >= mostCallers {
			clear(f.known)
			clear(f.exes)
		}
		is = f.find(t, m, who)
		f.known[who] = is
	}
	return is
}

func (f *forkIDs) find(t *kernel.Task, m *mm.MemoryManager, who caller) (is bool) {
	var file string
	m.ReadMapsDataInto(t, func(start, end hostarch.Addr, perm hostarch.AccessType, _ string, _ uint64, _, _ uint32, _ uint64, at string) {
		if uint64(start) <= who.at && who.at < uint64(end) && perm.Execute {
			file = at
		}
	})
	switch {
	case file == "":
		return false
	case strings.HasPrefix(path.Base(file), "libcrypto.so"):
		return true
	}
	// A program that OpenSSL was linked into, at addresses that are known and with its names: node is such a
	// one. What has OpenSSL in itself otherwise is not found, and repeats.
	spans, ok := f.exes[who.mm]
	if !ok {
		spans = ownSpans(t, m)
		f.exes[who.mm] = spans
	}
	return slices.ContainsFunc(spans, func(s span) bool { return s.from <= who.at && who.at < s.to })
}

// asks reports whether a function may hold OpenSSL's question. Its generators are one file, drbg.c, whose
// functions compilers put into each other: in node's, ossl_drbg_get_seed has a copy of ossl_prov_drbg_generate,
// and by that copy alone the first generator, of which the others are seeded, notices anything.
func asks(function string) bool {
	return function == "openssl_get_fork_id" || strings.Contains(strings.ToLower(function), "drbg")
}

// ownSpans are where a program at fixed addresses has the functions that ask.
func ownSpans(t *kernel.Task, m *mm.MemoryManager) []span {
	exe := m.Executable()
	if exe == nil {
		return nil
	}
	defer exe.DecRef(t)
	e, err := elf.NewFile(&guestFile{t, exe})
	if err != nil || e.Type != elf.ET_EXEC {
		return nil
	}
	symbols, err := e.Symbols()
	if err != nil {
		return nil
	}
	var out []span
	for _, s := range symbols {
		if asks(s.Name) {
			out = append(out, span{s.Value, s.Value + s.Size + 1}) // a call may be the last
		}
	}
	return out
}

// guestFile reads a file of the inside.
type guestFile struct {
	t  *kernel.Task
	fd *vfs.FileDescription
}

func (g *guestFile) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := g.fd.PRead(g.t, usermem.BytesIOSequence(p[done:]), off+int64(done), vfs.ReadOptions{})
		done += int(n)
		switch {
		case errors.Is(err, io.EOF) || err == nil && n == 0:
			return done, io.EOF
		case err != nil:
			return done, err
		}
	}
	return done, nil
}
