package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/bench/dressed"
)

// ours is the product in every series.
const ours = "cloister"

// budget is one promise: ours against a peer, or against a number.
type budget struct {
	title   string
	subject string
	peer    string // empty for a bound of its own
	// ratio tells what is compared: ours/peer where less is better, or the
	// other way round.
	most, least float64
	inverse     bool // peer/ours: so many times faster
	aim         string
	unit        string
	contender   string // ours, if empty
	told        bool   // what others take, to be compared with: no promise
}

// budgets are those of the design that exist; the others come with what they
// measure.
func budgets() []budget {
	return append([]budget{
		{title: "`run -- true`", subject: "start", peer: "bwrap", most: 1.2, aim: "< 1.0×"},
		{title: "`run -- true`", subject: "start", peer: "docker", least: 30, inverse: true},
		{title: "`run -- true`", subject: "start", peer: "srt", least: 50, inverse: true},
		{title: "`run -- true`", subject: "start", peer: "runsc do", inverse: true},
		{title: "`run --isolation gvisor -- true`", subject: kernelStart, contender: hosted, most: 200, unit: "ms"},
		{title: "`run --isolation gvisor -- true`", subject: kernelStart, contender: hosted, peer: "runsc run"},
		{title: "`run --isolation gvisor -- true`", subject: kernelStart, contender: hosted, peer: "runsc do"},
		{title: "`run --isolation docker -- true`", subject: "start in a container", contender: contained, peer: "docker run --rm", most: 1.3},
		{title: "`run --image IMAGE -- true`", subject: "start on an image", peer: "without an image", most: 1.5},
		{title: "second start of a devcontainer, in containers", subject: "devcontainer alone, in containers", contender: dressed.Engine, peer: "docker run --rm", most: 1.2},
		{title: "second start of a devcontainer, natively", subject: "devcontainer alone, natively", peer: "without one", most: 2},
		{title: "the same with a service, in containers", subject: "devcontainer with a service, in containers", contender: dressed.Engine, peer: "docker run --rm"},
		{title: "the same with a service, natively", subject: "devcontainer with a service, natively", peer: "without one"},
		{title: "tunnel out of a container, upload", subject: "upload from a container", contender: contained, peer: "cloister, native", least: 0.9},
		{title: "tunnel out of a container, download", subject: "download from a container", contender: contained, peer: "cloister, native", least: 0.9},
		{title: "`cloister version`", subject: "version", peer: "Go hello-world", most: 3},
		{title: "tunnel, upload", subject: "upload", peer: "direct", least: 0.55},
		{title: "tunnel, download", subject: "download", peer: "direct", least: 0.55},
		{title: "tunnel, CPU of the guardian", subject: "upload cpu", most: 0.2, unit: "s/GB"},
		{title: "tunnel, CPU of the guardian, download", subject: "download cpu", most: 0.2, unit: "s/GB"},
		{title: "tunnel, upload", subject: "upload", peer: bare},
		{title: "tunnel, download", subject: "download", peer: bare},
		{title: "tunnel, CPU of the guardian", subject: "upload cpu", peer: bare},
		{title: "tunnel, CPU of the guardian, download", subject: "download cpu", peer: bare},
		{title: "connections, one after another", subject: "connect", peer: "direct", least: 0.4},
		{title: "connections, sixteen at once", subject: "connect 16", peer: "direct", least: 0.4},
		{title: "connections, one after another", subject: "connect", peer: bare},
		{title: "connections, sixteen at once", subject: "connect 16", peer: bare},
		{title: "DNS answers, sixteen at once", subject: "dns 16", peer: "direct"},
		{title: "an ask, to its line at an open watcher, p95", subject: "ask to appearance, p95", most: 50, unit: "ms"},
		{title: "an answer, to the held connection's next byte, p95", subject: "answer to going on, p95", most: 50, unit: "ms"},
		{title: "an inspected request adds, p50", subject: "added p50", most: 80, unit: "µs"},
		{title: "an inspected request adds, p99", subject: "added p99", most: 200, unit: "µs"},
		{title: "inspected requests, sixteen at once", subject: "requests 16", peer: "direct", least: 0.45},
		{title: "inspected requests, sixteen at once", subject: "requests 16", peer: "squid", least: 1.8},
		{title: "inspected requests, sixteen at once", subject: "requests 16", peer: "mitmproxy", least: 20},
		{title: "inspected requests, sixteen at once", subject: "requests 16", peer: leastLoop},
		{title: "a minimal Go loop adds, p50", subject: "added p50", contender: leastLoop, unit: "µs", told: true},
		{title: "a minimal Go loop adds, p99", subject: "added p99", contender: leastLoop, unit: "µs", told: true},
		{title: "inspected bulk", subject: "inspected bulk", peer: "direct", least: 0.4},
		{title: "inspected bulk", subject: "inspected bulk", peer: "squid", least: 2},
		{title: "an idle inspected connection, 1,000 at once", subject: "idle inspected", most: 64, unit: "KiB"},
		{title: "a placeholder adds to an inspected request, p50", subject: "injection", most: 20, unit: "µs"},
		{title: "new inspected connections", subject: "new inspected", peer: "direct", least: 0.85},
		{title: "new inspected connections", subject: "new inspected", peer: leastLoop},
		{title: "an event of a stream is later than directly, p50", subject: "added p50, event", most: 2, unit: "ms"},
		{title: "an event of a stream is later than directly, p99", subject: "added p99, event", unit: "ms", told: true},
		{title: "a WebSocket message there and back is later, p50", subject: "added p50, message", most: 2, unit: "ms"},
		{title: "a WebSocket message there and back is later, p99", subject: "added p99, message", unit: "ms", told: true},
		{title: "`Decide`, 1,000 rules", subject: "decide", most: 2, unit: "µs"},
		{title: "`Decide`, 1,000 rules and a Cedar file", subject: "decide", contender: "cloister with a Cedar file", most: 2, unit: "µs"},
		{title: "`Decide`, allocations", subject: "decide allocs", most: 0, unit: "a decision"},
		{title: "`Decide`, allocations with a Cedar file", subject: "decide allocs", contender: "cloister with a Cedar file", most: 0, unit: "a decision"},
		{title: "`Decide`, 1,000 rules", subject: "decide", peer: "cedar-go", least: 10, inverse: true},
		{title: "guardian, idle", subject: "guardian", most: 30, unit: "MB"},
		{title: "an idle cloister over its payload", subject: "memory", most: 6, unit: "MB"},
	}, append(keptBudgets(), workBudgets()...)...)
}

// verdict is one budget with what was measured.
type verdict struct {
	budget
	value, against, bound string
	met, judged           bool
}

func (v verdict) word() string {
	switch {
	case !v.judged:
		return "told, not promised"
	case v.met:
		return "met"
	}
	return "**not met**"
}

// judge leaves out what a run did not measure.
func judge(r *raw) []verdict {
	var out []verdict
	for _, b := range budgets() {
		name := b.contender
		if name == "" {
			name = ours
		}
		mine, ok := r.find(b.subject, name)
		if !ok {
			continue
		}
		v := verdict{budget: b, bound: "–"}
		figure := mine.median()
		mark := "×"
		if b.peer == "" {
			mark = " " + b.unit
		} else {
			peer, ok := r.find(b.subject, b.peer)
			if !ok {
				continue // its absence is told among the peers
			}
			v.against = fmt.Sprintf("of %s (%.4g %s against %.4g)", b.peer, mine.median(), mine.Unit, peer.median())
			figure = mine.median() / peer.median()
			if b.inverse {
				v.against = strings.Replace(v.against, "of", "faster than", 1)
				figure = 1 / figure
			}
		}
		v.value = fmt.Sprintf("%.3g%s", figure, mark)
		switch {
		case b.told:
		case b.peer == "" || b.most > 0:
			v.judged, v.met, v.bound = true, figure <= b.most, fmt.Sprintf("≤ %g%s", b.most, mark)
		case b.least > 0:
			v.judged, v.met, v.bound = true, figure >= b.least, fmt.Sprintf("≥ %g%s", b.least, mark)
		}
		if b.aim != "" {
			v.bound += ", aim " + b.aim
		}
		out = append(out, v)
	}
	return out
}

// runsOf gives the runs that are kept in a folder, the oldest first.
func runsOf(dir string) ([]named, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("read the figures: %w", err)
	}
	slices.Sort(files)
	var out []named
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("read the figures: %w", err)
		}
		r := &raw{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("read the figures: %s: %w", f, err)
		}
		if !r.Short {
			out = append(out, named{file: filepath.Base(f), raw: r})
		}
	}
	return out, nil
}

// newest gives the newest full run of each kind of user, with the newer ones that
// measured some subjects apart.
func newest(dir string) ([]named, error) {
	runs, err := runsOf(dir)
	if err != nil {
		return nil, err
	}
	last := map[string]named{}
	for _, one := range runs {
		r := one.raw
		if r.ofTime() {
			continue
		}
		if _, full := r.find("start", ours); full {
			last[r.User] = one
			continue
		}
		base, ok := last[r.User]
		if !ok {
			return nil, fmt.Errorf("read the figures: %s measured some subjects, and nobody all before it", one.file)
		}
		base.apart = slices.DeleteFunc(base.apart, func(old named) bool { return old.Series[0].Subject == r.Series[0].Subject })
		base.apart = append(base.apart, one)
		last[r.User] = base
	}
	var out []named
	for _, user := range []string{"user", "root"} {
		if n, ok := last[user]; ok {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read the figures: none in %s", dir)
	}
	return out, nil
}

type named struct {
	file string
	*raw
	apart []named // newer runs of some subjects
}

// document is docs/performance.md.
func document(dir string) ([]byte, error) {
	runs, err := newest(dir)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(`# Performance

<!-- Written by go run ./bench from docs/bench/*.json. Do not edit. -->

Every figure stands beside its peer from the same run on the same machine: the
contenders take turns, and a figure is the median of its rounds. Ratios travel
between machines, milliseconds do not. ` + "`go run ./bench`" + ` measures again (as
root it installs the peers first); the newest full run of each kind of user is
told here, and the raw figures of all runs are in docs/bench. Every client and everything
between it and its server runs in a session of its own, as the guardian and each cloister
do, because the kernel wakes a program sooner by another of its own session
(docs/decisions/0029).

How it is measured, and what is compared:

- **start**: the wall time of the whole command, guardian up. bwrap is ` + "`bwrap\n  --unshare-all --ro-bind / /`" + `: namespaces and one mount, none of policy, record,
  gate, seccomp, Landlock, protected paths. Docker runs with ` + "`--network none`" + `, which
  spares it its bridge; runsc is ` + "`runsc do`" + `; srt is npm's sandbox-runtime.
- **tunnel**: a client in a real cloister to a server on the host's loopback by
  a name of ` + "`proxy.hosts`" + `; direct is the same client on the host. squid, tinyproxy
  and srt carry the same bytes by CONNECT. CPU is that of the process between. The bare
  relay is thirty lines of Go which accept, dial and let the kernel splice: what standing
  in between costs on this machine, with nothing decided and nothing recorded.
  This machine's TCP is BBR, which paces by timers also over loopback. What stays on
  loopback by our hand is not paced (docs/decisions/0026), direct and the peers are, so
  ours can be faster than direct here; a relay without BBR on any side has mostly 0.55
  to 0.6 of a direct that is then twice as fast.
- **connections**: dial, one byte there, one back, reset; each is judged and
  recorded. All are to an address; what ours are with a name looked up before each stands in the table. **DNS** is compared with a server that answers at once.
- **asks**: from the moment that a program inside begins to connect to the line of an
  open ` + "`cloister approvals watch`" + `, and from the start of ` + "`cloister approvals approve`" + `
  to the first byte that the held connection brings back; a figure is the percentile
  of fifty in one session.
- **containers**: a start in containers beside ` + "`docker run --rm`" + ` of the same image with
  the same limits and no network, a start natively on an image beside one without,
  the second start of a devcontainer beside its image without one, and the tunnel out of a
  container beside the one out of the native enclosure.
- **memory**: proportional set size (PSS) of all processes of an idle cloister
  without the payload's, ten at once, with the guardian's growth; 1 MB is 10⁶.
- **inspected**: HTTPS to a server on loopback whose requests rules read; direct is the
  same client without anything between. squid and mitmproxy open the same connections
  by CONNECT. A request is timed on a connection that is kept, many once all their
  connections are open; what one adds is against direct in the same round. A new connection, to an
  address that is known, makes both handshakes and one request. An
  idle one is what the guardian's PSS grows by for each of a thousand that were asked on
  once and are kept. A placeholder is sent by every second 150 of the requests of one
  session, to a server that lets in the real value alone. The minimal Go loop is the
  least that Go does between two TLS connections: it reads a head, writes it on, and the
  same for the answer, with no rule, check or record. What it takes is this machine's
  price of going through one more process, under most figures of ours; not under new
  connections, of which it makes each anew and ours lends the server's half.
- **streams**: events of a stream, 2 ms apart, from the server's clock before its write to
  the client's after its read; WebSocket messages there and back, one after another.
- **Decide** is compared with cedar-go over the same policies.
- **kept** and **working**: see [docs/time-figures.md](time-figures.md).
`)
	for _, n := range runs {
		who := "an ordinary user"
		if n.User == "root" {
			who = "root"
		}
		fmt.Fprintf(&b, "\n## As %s\n\n%s", who, n.figures())
		b.WriteString("\nPeers: ")
		var list []string
		for _, name := range peerNames() {
			if version, known := n.Peers[name]; known { // an older run did not look for all
				list = append(list, name+" "+version)
			}
		}
		b.WriteString(strings.Join(list, "; ") + ".\n")
		for _, one := range n.apart {
			fmt.Fprintf(&b, "\n### As %s, measured apart\n\n%s", who, one.figures())
		}
	}
	b.WriteString(byTests)
	return []byte(b.String()), nil
}

func (n named) where() string {
	commit := n.Commit
	if n.Dirty {
		commit += " with changes"
	}
	return fmt.Sprintf("Commit %s, %s; %s, %d cores, %d GiB, Linux %s, %s; load average at the start %s.\nRaw: [%s](bench/%s).\n\n",
		commit, n.Time.UTC().Format("2006-01-02 15:04 UTC"), n.Machine, n.Cores, n.MemoryG, n.Kernel, n.Go, n.Load, n.file, n.file)
}

// figures are where and when a run was, its verdicts, its series.
func (n named) figures() string {
	var b strings.Builder
	b.WriteString(n.where())
	b.WriteString("| what | measured | | budget | |\n|---|---|---|---|---|\n")
	for _, v := range judge(n.raw) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", v.title, v.value, v.against, v.bound, v.word())
	}
	b.WriteString("\n| subject | contender | median | 10 % | 90 % | unit | rounds |\n|---|---|---|---|---|---|---|\n")
	for _, s := range n.Series {
		fmt.Fprintf(&b, "| %s | %s | %.4g | %.4g | %.4g | %s | %d |\n", s.Subject, s.Contender, s.median(), s.at(0.1), s.at(0.9), s.Unit, len(s.Values))
	}
	return b.String()
}
