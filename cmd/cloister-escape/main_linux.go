// Package main is cloister-escape: the corpus of attempts against a cloister
// binary, on this host.
//
// It promises one row for each case with its verdict, and status 1 when one does
// not pass. It is a test binary, and no part of a release. Inside a cloister it
// is the attempt itself (attempts, attempt). Most readers want run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/escape"
	"cloister/escape/corpus"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	err := dispatch(ctx, os.Args[1:])
	var status *statusError
	switch {
	case errors.As(err, &status):
		os.Exit(status.code)
	case err != nil:
		fmt.Fprintln(os.Stderr, "cloister-escape:", err)
		os.Exit(1)
	}
}

// statusError is an end that needs no words.
type statusError struct{ code int }

func (e *statusError) Error() string { return "status " + strconv.Itoa(e.code) }

func dispatch(ctx context.Context, words []string) error {
	if len(words) > 0 {
		switch words[0] {
		case "attempts":
			return attempts(ctx, words[1:])
		case "attempt":
			return attempt(words[1:])
		case "victim":
			return victim(ctx)
		case "hog":
			return hog(words[1:])
		case "hogs":
			return hogs(ctx)
		case "take":
			fmt.Println(corpus.Take())
			return nil
		case "witness":
			return corpus.Witness(ctx, words[1], words[2])
		case "fetch":
			return fetch(words[1:])
		case "hold":
			return hold(words[1:])
		case "trace":
			return trace(ctx, words[1:])
		case "knock":
			return knock(words[1:])
		case "mcp":
			return mcp()
		case "editor":
			return editor(words[1:])
		case "agent":
			return agent(words[1:])
		case "say":
			return say(words[1:])
		case "sign":
			return sign(words[1:])
		case "txt":
			return txt(words[1:])
		case "requests":
			return requests(words[1:])
		case "search":
			return search(words[1:])
		case "hoard":
			return hoarding(words[1:])
		case "listen":
			return listen(words[1:])
		}
	}
	return run(ctx, words)
}

func pick(ids []string) ([]escape.Case, error) {
	all := corpus.All()
	var out []escape.Case
	for _, id := range ids {
		i := slices.IndexFunc(all, func(c escape.Case) bool { return c.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("no case %q", id)
		}
		out = append(out, all[i])
	}
	return out, nil
}

func attempts(ctx context.Context, ids []string) error {
	cases, err := pick(ids)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return escape.AttemptAll(ctx, os.Stdout, self, cases)
}

func attempt(ids []string) error {
	cases, err := pick(ids)
	if err != nil {
		return err
	}
	var in escape.Inside
	if err := json.Unmarshal([]byte(os.Getenv(escape.EnvInside)), &in); err != nil {
		return fmt.Errorf("%s: %w", escape.EnvInside, err)
	}
	for _, c := range cases {
		if err := escape.Attempt(os.Stdout, c, in); err != nil {
			return err
		}
	}
	return nil
}

// victim lets itself be traced, whatever yama says, and waits.
func victim(ctx context.Context) error {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // a kernel without yama has no such rule
	<-ctx.Done()
	return nil
}

// hog touches so many MiB.
func hog(words []string) error {
	n, err := strconv.Atoi(words[0])
	if err != nil {
		return err
	}
	b := make([]byte, n<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println(len(b))
	return nil
}

// hogs takes descriptors and watches until it is refused, says how many, and
// spins on every processor.
func hogs(ctx context.Context) error {
	var files, watches int
	if fd, err := unix.InotifyInit1(0); err == nil {
		for n := range 20_000 {
			if _, err := unix.InotifyAddWatch(fd, "/proc/self/task/../"+strings.Repeat("./", n%1000), unix.IN_OPEN); err != nil {
				break
			}
			watches++
		}
	}
	for files < 100_000 { // root's limit may be a million, which only takes long
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			break
		}
		files++
	}
	fmt.Println(files, "descriptors,", watches, "watches")
	for range 4 {
		go func() {
			for n := 0; ; n++ {
				if n%1_000_000 == 0 && ctx.Err() != nil {
					return
				}
			}
		}()
	}
	<-ctx.Done()
	return nil
}

// fetch asks the proxy for a tunnel: 0 where it opens, 3 where it is refused.
func fetch(words []string) error {
	c, err := net.DialTimeout("tcp", "proxy.cloister.internal:3128", 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", words[0], words[0])
	buf := make([]byte, 1024)
	n, err := c.Read(buf)
	if err != nil {
		return err
	}
	code := strings.Fields(string(buf[:n]))[1]
	fmt.Println(code)
	if code == "403" {
		return &statusError{3}
	}
	if code == "200" {
		fmt.Fprintf(c, "GET /fetch HTTP/1.1\r\nHost: %s\r\n\r\n", strings.TrimSuffix(words[0], ":80"))
		_, _ = c.Read(buf) // whatever it says: it was reached
	}
	return nil
}

// hold keeps a connection open until somebody closes it.
func hold(words []string) error {
	c, err := net.DialTimeout("tcp", "proxy.cloister.internal:3128", 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", words[0], words[0])
	buf := make([]byte, 1024)
	n, err := c.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), " 200 ") {
		return fmt.Errorf("no tunnel: %w: %s", err, buf[:n])
	}
	fmt.Println("open")
	began := time.Now()
	for time.Since(began) < 30*time.Second {
		if _, err := c.Write([]byte("\x16\x03\x01")); err != nil {
			break
		}
		if err := c.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			return err
		}
		if _, err := c.Read(buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	fmt.Println("closed")
	return nil
}

// knock tries destinations, HOST:PORT or udp/HOST:PORT, and says of each what came.
// A datagram has reached somebody where it is answered.
func knock(words []string) error {
	for _, to := range words {
		network, rest, udp := strings.Cut(to, "/")
		if !udp {
			network, rest = "tcp", to
		}
		said := "nothing"
		c, err := net.DialTimeout(network, rest, 5*time.Second)
		if err == nil {
			err = errors.Join(c.SetDeadline(time.Now().Add(time.Second)), nil)
			_, werr := c.Write([]byte("knock"))
			_, rerr := c.Read(make([]byte, 1))
			// Who accepts is there, whether or not it speaks: it has not hung up.
			if udp && werr == nil && rerr == nil || !udp && errors.Is(rerr, os.ErrDeadlineExceeded) {
				said = "reached"
			} else {
				err = errors.Join(err, werr, rerr)
			}
			_ = c.Close() // it was only tried
		}
		fmt.Printf("%s %s %v\n", said, to, strings.ReplaceAll(fmt.Sprint(err), "\n", "; "))
	}
	return nil
}

// listen listens on every address as long as a file is there, which it makes.
func listen(words []string) error {
	ln, err := net.Listen("tcp", ":"+words[0])
	if err != nil {
		return err
	}
	defer ln.Close()
	if err := os.WriteFile(words[1], nil, 0o644); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		<-tick.C
		if _, err := os.Lstat(words[1]); err != nil {
			return nil
		}
	}
	return nil
}

// run is the corpus.
func run(ctx context.Context, words []string) error {
	words, settled := isApart(words)
	o, err := parse(words)
	if err != nil {
		return err
	}
	switch {
	case o.document != "":
		return documents(o.document)
	case settled:
		if err := settleApart(o); err != nil {
			return err
		}
	case os.Geteuid() == 0:
		return apart(ctx, o, words)
	}
	if o.Cases, err = o.cases(); err != nil || len(o.Cases) == 0 {
		return err
	}
	began := time.Now()
	fmt.Fprintf(os.Stderr, "trying %d cases as %s with %s, in cloisters and outside: a few minutes\n", len(o.Cases), as(),
		o.Cloister)
	if o.verbose {
		o.Ended = sayEnded
	}
	var lost error
	var mu sync.Mutex
	if o.columns != "" {
		o.Judged = func(r escape.Row) {
			mu.Lock()
			defer mu.Unlock()
			lost = errors.Join(lost, added(o.columns, o.Kind.Column(), r))
		}
	}
	rows, err := escape.Run(ctx, o.Options)
	if o.again && err == nil {
		err = onceMore(ctx, o.Options, rows)
	}
	err = errors.Join(err, lost)
	failed := report(rows, o.verbose)
	if err != nil {
		return err
	}
	for _, m := range corpus.Missing() {
		fmt.Printf("%-7s not yet: needs %s\n", m.ID, m.Needs)
	}
	if o.Layers && o.holds != "" {
		if err := compare(o.holds, rows, o.write); err != nil {
			fmt.Println("FAIL    " + err.Error())
			failed++
		}
	}
	fmt.Printf("%d cases, %d passed, %d failed, %d not yet; %v\n", len(rows), len(rows)-failed, failed,
		len(corpus.Missing()), time.Since(began).Round(time.Second))
	if failed > 0 {
		return &statusError{1}
	}
	return nil
}

// onceMore tries what is undecided again, one case after the other. What came off is never tried again
// (docs/decisions/0045).
func onceMore(ctx context.Context, o escape.Options, rows []escape.Row) error {
	o.AtOnce, o.Cases = 1, nil
	for _, r := range rows {
		if r.Undecided() {
			o.Cases = append(o.Cases, r.Case)
			fmt.Printf("%-7s once more: %s\n", r.Case.ID, clip(strings.Join(r.Problems, "; "), 6))
		}
	}
	if len(o.Cases) == 0 {
		return nil
	}
	second, err := escape.Run(ctx, o)
	for _, r := range second {
		rows[slices.IndexFunc(rows, func(first escape.Row) bool { return first.Case.ID == r.Case.ID })] = r
	}
	return err
}

// as says who makes the attempts.
func as() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return "an ordinary user"
}

// sayEnded prints on stderr what a cloister or a control of cases came to, and how long it
// took: a run that is cut off has said so much.
func sayEnded(what string, rows []*escape.Row, took time.Duration) {
	names := rows[0].Case.ID
	if more := len(rows) - 1; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	text := fmt.Sprintf("%7.1f s  %s %s\n", took.Seconds(), what, names)
	for _, r := range rows {
		for _, p := range r.Problems {
			text += fmt.Sprintf("           %s: %s\n", r.Case.ID, p)
		}
	}
	fmt.Fprint(os.Stderr, text) // in one piece: others end at the same time
}
