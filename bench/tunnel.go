package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloister/bench/facts"
)

// way is one path from a client to the server.
type way struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	to    string
	proxy string
	cpu   func() (float64, error) // seconds that the process between has worked
}

// client is this program in the project, where a cloister has it too.
func (w *world) client() (string, error) {
	path := filepath.Join(w.project, "client")
	return path, copyFile(filepath.Join(w.bin, "bench"), path, 0o755)
}

// open starts the client of a way.
func (w *world) open(ctx context.Context, name string, words []string, to, proxy string, cpu func() (float64, error)) (*way, error) {
	cmd := w.in(ctx, words[0], words[1:]...)
	cmd.SysProcAttr = apart()
	cmd.Stderr = os.Stderr
	// An end by its closed input leaves nothing behind; this is for a hang.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return &way{name: name, cmd: cmd, in: in, out: json.NewDecoder(out), to: to, proxy: proxy, cpu: cpu}, nil
}

func (y *way) do(o order) (float64, error) {
	var a answer
	err := y.tell(o, &a)
	return a.Seconds, err
}

// each tells how long each took.
func (y *way) each(o order) ([]float64, error) {
	var a answer
	err := y.tell(o, &a)
	return a.Each, err
}

// tell gives the client an order, and waits for its answer.
func (y *way) tell(o order, a *answer) error {
	if o.To == "" {
		o.To = y.to
	}
	o.Proxy = y.proxy
	if err := json.NewEncoder(y.in).Encode(o); err != nil {
		return fmt.Errorf("%s: %w", y.name, err)
	}
	if err := y.out.Decode(a); err != nil {
		return fmt.Errorf("%s: %w", y.name, err)
	}
	if a.Error != "" {
		return fmt.Errorf("%s: %s", y.name, a.Error)
	}
	return nil
}

func (y *way) close() error {
	_ = y.in.Close()
	return y.cmd.Wait()
}

// worked is the CPU time of a process and all below it, in seconds, threads that
// ended included. The kernel counts it in ticks of 10 ms.
func worked(pid int) func() (float64, error) {
	return func() (float64, error) {
		sum := 0.0
		for _, id := range facts.Children(pid) {
			text, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/stat")
			if err != nil {
				return 0, fmt.Errorf("cpu time: %w", err)
			}
			// proc_pid_stat(5): utime and stime are fields 14 and 15; the name,
			// field 2, may hold anything but ends with the last bracket.
			fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
			if len(fields) < 13 {
				return 0, fmt.Errorf("cpu time: %q", text)
			}
			for _, f := range fields[11:13] {
				ticks, err := strconv.ParseFloat(f, 64)
				if err != nil {
					return 0, fmt.Errorf("cpu time: %w", err)
				}
				sum += ticks / 100
			}
		}
		return sum, nil
	}
}

// freePort is one that nobody has at this moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(port)
	return n, errors.Join(err, l.Close())
}

// bareRelay starts one to an address, and tells where it listens. It lives as long as
// the run, so it is not the program in the project, which is written anew.
func (w *world) bareRelay(ctx context.Context, to string) (string, int, error) {
	port, err := freePort()
	if err != nil {
		return "", 0, err
	}
	at := fmt.Sprintf("127.0.0.1:%d", port)
	cmd, err := w.daemon(ctx, filepath.Join(w.bin, "bench"), relayWord, at, to)
	if err != nil {
		return "", 0, err
	}
	if !answers(ctx, at) {
		return "", 0, fmt.Errorf("%s: it does not answer at %s", bare, at)
	}
	return at, cmd.Process.Pid, nil
}

// answers waits until something listens at an address.
func answers(ctx context.Context, at string) bool {
	return until(ctx, 20*time.Second, func() bool {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// proxies start squid and tinyproxy as an administrator's first page has them,
// less their caches and logs.
func (w *world) proxies(ctx context.Context) (map[string]int, map[string]int, error) {
	configs := map[string]string{
		"squid": "http_port 127.0.0.1:%d\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log %s/squid-cache.log\npid_filename none\n" +
			"coredump_dir %[2]s\nshutdown_lifetime 0 seconds\nmax_filedescriptors 4096\nnetdb_filename none\npinger_enable off\n",
		"tinyproxy": "Port %d\nListen 127.0.0.1\nTimeout 600\nMaxClients 200\nLogLevel Critical\nLogFile \"%s/tinyproxy.out\"\n",
	}
	ports, pids := map[string]int{}, map[string]int{}
	for name, text := range configs {
		p, ok := w.peers[name]
		if !ok || w.short {
			continue
		}
		port, err := freePort()
		if err != nil {
			return nil, nil, err
		}
		file := filepath.Join(w.dir, name+".conf")
		dir := filepath.Join(w.dir, name)
		// squid as root becomes another user, who writes its log there.
		if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, text, port, dir), 0o644); err != nil {
			return nil, nil, err
		}
		words := []string{"-N", "-f", file}
		if name == "tinyproxy" {
			words = []string{"-d", "-c", file}
		}
		cmd, err := w.daemon(ctx, p.path, words...)
		if err != nil {
			return nil, nil, err
		}
		if !answers(ctx, fmt.Sprintf("127.0.0.1:%d", port)) {
			w.absent(name, errors.New("it does not answer within 20 s"))
			continue
		}
		ports[name], pids[name] = port, cmd.Process.Pid
	}
	return ports, pids, nil
}

// ways are all ways to a server at a port of loopback.
func (w *world) ways(ctx context.Context, port int) ([]*way, error) {
	guardian, err := w.guardian(ctx, port)
	if err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	ports, pids, err := w.proxies(ctx)
	if err != nil {
		return nil, err
	}
	here := fmt.Sprintf("127.0.0.1:%d", port)
	var out []*way
	add := func(y *way, err error) error {
		if err == nil {
			out = append(out, y)
		}
		return err
	}
	if err := add(w.open(ctx, "direct", []string{client, insideWord}, here, "", nil)); err != nil {
		return nil, err
	}
	if err := add(w.open(ctx, ours, []string{w.cloister, "run", "--", client, insideWord}, fmt.Sprintf("sink.bench.example:%d", port), "", worked(guardian))); err != nil {
		return nil, err
	}
	between, pid, err := w.bareRelay(ctx, here)
	if err != nil {
		return nil, err
	}
	if err := add(w.open(ctx, bare, []string{client, insideWord}, between, "", worked(pid))); err != nil {
		return nil, err
	}
	for _, name := range []string{"squid", "tinyproxy"} {
		if ports[name] == 0 {
			continue
		}
		if err := add(w.open(ctx, name, []string{client, insideWord}, here, fmt.Sprintf("http://127.0.0.1:%d", ports[name]), worked(pids[name]))); err != nil {
			return nil, err
		}
	}
	if p, ok := w.peers["srt"]; ok && !w.short {
		file := filepath.Join(w.dir, "srt.json")
		text := `{"network":{"allowedDomains":["localhost","127.0.0.1"],"deniedDomains":[],"allowLocalBinding":true},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[]}}`
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { // not a secret
			return nil, err
		}
		if err := add(w.open(ctx, "srt", []string{p.path, "--settings", file, client, insideWord}, fmt.Sprintf("localhost:%d", port), "env", nil)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sink is a server that takes and gives bytes, and its port.
func sink() (net.Listener, int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, 0, err
	}
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, 0, errors.Join(err, l.Close())
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, 0, errors.Join(err, l.Close())
	}
	go serve(l)
	return l, port, nil
}

// measureTunnel sends and fetches bulk, then opens connections, each way in
// turn.
func measureTunnel(ctx context.Context, w *world) error {
	l, port, err := sink()
	if err != nil {
		return err
	}
	defer l.Close()
	list, err := w.ways(ctx, port)
	defer func() {
		for _, y := range list {
			_ = y.close()
		}
	}()
	if err != nil {
		return err
	}
	// Who cannot do an exchange is told, and takes no further part.
	alive := slices.Clone(list)
	each := func(what string, do func(*way) error) error {
		var failed error
		alive = slices.DeleteFunc(alive, func(y *way) bool {
			err := do(y)
			switch {
			case err == nil:
				return false
			case y.name == ours || y.name == "direct":
				failed = errors.Join(failed, err)
			default:
				w.absent(y.name, fmt.Errorf("%s: %w", what, err))
			}
			return true
		})
		return failed
	}
	if err := each("tunnel", func(y *way) error { _, err := y.do(order{Do: "connect", Times: 1}); return err }); err != nil {
		return err
	}
	size := int64(512 << 20)
	if w.short {
		size = 64 << 20
	}
	for range w.rounds(7) {
		for _, do := range []string{"upload", "download"} {
			if err := each(do, func(y *way) error { return w.bulk(y, do, size) }); err != nil {
				return err
			}
		}
	}
	for range w.rounds(7) {
		for _, wide := range []int{1, 16} {
			times := w.rounds(1000)
			connect := func(subject, do string, y *way) error {
				seconds, err := y.do(order{Do: do, Times: times, Wide: wide})
				if err == nil {
					w.raw.add(strings.TrimSuffix(subject+" "+strconv.Itoa(wide), " 1"), y.name, "a second", float64(times)/seconds)
				}
				return err
			}
			err := each("connections", func(y *way) error {
				err := connect("connect", "connect", y)
				if err == nil && y.name == ours {
					// The others were given an address.
					err = connect("look up and connect", "look up and connect", y)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) bulk(y *way, do string, size int64) error {
	before := 0.0
	var err error
	if y.cpu != nil {
		if before, err = y.cpu(); err != nil {
			return err
		}
	}
	seconds, err := y.do(order{Do: do, Bytes: size})
	if err != nil {
		return err
	}
	w.raw.add(do, y.name, "MB/s", float64(size)/1e6/seconds)
	if y.cpu != nil {
		after, err := y.cpu()
		if err != nil {
			return err
		}
		w.raw.add(do+" cpu", y.name, "s/GB", (after-before)/(float64(size)/1e9))
	}
	return nil
}
