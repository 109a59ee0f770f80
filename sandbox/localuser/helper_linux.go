package localuser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloister/internal/peercred"
	"cloister/sandbox/apart"
)

// Helper is what root's process that listens knows. It does one thing: for each caller
// that root listed it starts a process of its own, which has the caller's uid among its words.
type Helper struct {
	Allowed []int     // the callers' uids
	First   int       // the first id that payloads may have, 0 for none: they are the caller then
	Count   int       // how many there are
	Locks   string    // a folder of root's, for the locks of ids in use
	Log     io.Writer // what was refused, a line each
}

// most bounds the processes for all callers, mostEach those for one.
const (
	most     = 1024
	mostEach = 128
)

// Serve answers callers until the context is over. Boxes that stand then go on.
func (h Helper) Serve(ctx context.Context, l *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	var mu sync.Mutex
	each := map[int]int{}
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("local-user: %w", err)
		}
		who, err := peercred.Of(c)
		mu.Lock()
		all := 0
		for _, n := range each {
			all += n
		}
		switch {
		case err != nil:
		case who.UID == 0 || !slices.Contains(h.Allowed, who.UID):
			err = lacking(fmt.Sprintf("uid %d is none that root listed", who.UID),
				"sudo cloister setup local-user, as that account")
		case all >= most || each[who.UID] >= mostEach:
			err = fmt.Errorf("uid %d has %d boxes, all have %d: no more", who.UID, each[who.UID], all)
		default:
			each[who.UID]++
		}
		mu.Unlock()
		if err != nil {
			h.say(err)
			_ = apart.Refuse(c, err) // a caller that is gone needs no reason
			continue
		}
		running.Go(func() {
			if err := h.own(ctx, c, who); err != nil {
				h.say(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if each[who.UID]--; each[who.UID] == 0 {
				delete(each, who.UID)
			}
		})
	}
}

func (h Helper) say(err error) { fmt.Fprintf(h.Log, "cloister local-user: %v\n", err) }

// own starts the process that owns a caller's box, and waits for it.
func (h Helper) own(ctx context.Context, c *net.UnixConn, who peercred.Cred) error {
	f, err := c.File()
	if err = errors.Join(err, c.Close()); err != nil { // the caller is to notice when the process ends
		return err
	}
	// The box outlives the helper: its life is the connection's.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/proc/self/exe", OwnerName, strconv.Itoa(who.UID),
		strconv.Itoa(h.First), strconv.Itoa(h.Count), h.Locks)
	cmd.Args[0], cmd.Dir, cmd.Env = "cloister", "/", ownerEnv(who.PID)
	cmd.Stderr = h.Log
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return cmd.Wait()
}

// HelperMain is the helper as a process: args are the callers' uids with commas between
// them, the first id for payloads, how many there are, and where it listens.
func HelperMain(ctx context.Context, args []string, log io.Writer) int {
	h := Helper{Log: log}
	err := func() error {
		if len(args) != 4 {
			return errors.New("four words are needed: UIDS FIRST COUNT SOCKET")
		}
		for text := range strings.SplitSeq(args[0], ",") {
			uid, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			h.Allowed = append(h.Allowed, uid)
		}
		var bad [2]error
		h.First, bad[0] = strconv.Atoi(args[1])
		h.Count, bad[1] = strconv.Atoi(args[2])
		if err := errors.Join(bad[:]...); err != nil {
			return err
		}
		l, err := listen(args[3])
		if err != nil {
			return err
		}
		fmt.Fprintln(log, "cloister local-user: listening at", args[3])
		h.Locks = strings.TrimSuffix(args[3], "/socket") + "/ids"
		return h.Serve(ctx, l)
	}()
	if err != nil {
		h.say(err)
		return 1
	}
	return 0
}

// listen makes the socket, which everybody may connect to: who is served is decided by
// the kernel's word of who they are.
func listen(path string) (*net.UnixListener, error) {
	dir, ok := strings.CutSuffix(path, "/socket")
	if !ok {
		return nil, errors.New("the socket is named socket, in a folder of its own")
	}
	if err := os.MkdirAll(dir+"/ids", 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o666)
}

// orderWithin bounds how long a caller may take to say what it wants.
const orderWithin = 30 * time.Second
