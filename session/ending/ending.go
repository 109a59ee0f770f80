// Package ending writes what a person is shown when a session is over.
//
// The promise: each destination that was refused is named once, the words that would have
// allowed them are one command and one line of configuration, and nothing is shown of a
// run in which nothing was refused or changed, unless its caller wants the whole.
//
// It reads no record: the session's result has everything.
//
// Most readers want [Lines].
package ending

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/session"
	"cloister/workspace"
)

// Options say how it is written.
type Options struct {
	// Whole adds what passed, for a session at which a person sat.
	Whole bool
	// Again makes the words for another run those of this one.
	Again func(hint string) string
}

// Lines are what is shown, from the top.
func Lines(res session.Result, o Options) []string {
	var out []string
	tell := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, n := range res.Notices {
		tell("cloister: %s", n)
	}
	switch {
	case res.TimedOut:
		tell("cloister: %s was ended: its time was over", res.Name)
	case res.Stopped != "":
		tell("cloister: %s was ended: %s", res.Name, res.Stopped)
	}
	if o.Whole {
		tell("cloister: %s is over after %s: %s", res.Name, lasted(res.Duration), traffic(res.Summary))
	}
	out = append(out, refused(res, o.Again)...)
	for _, r := range res.Summary.Unauthorized {
		tell("cloister: %s refuses the secret %s: 401 Unauthorized", r.Host, r.Secret)
		tell("hint: where it is no longer valid, store another value: cloister secret set %s", r.Secret)
	}
	if res.Summary.More > 0 {
		tell("cloister: and %d more destinations: cloister audit tail --session %s --verdict deny",
			res.Summary.More, res.Name)
	}
	if len(res.Autorun) > 0 {
		tell("cloister: files changed that programs of this host may run; look before you do:")
		shown, more := workspace.Grouped(res.Autorun)
		for _, path := range shown {
			tell("  %s", path)
		}
		for _, m := range more {
			tell("  and %d more in %s", m.Count, m.Folder)
		}
		tell("hint: cloister review shows each, and keeps, reverts or trusts it")
	}
	if n := len(res.Summary.Brought); n > 0 {
		tell("cloister: files came back that programs of this host may run once they are checked out; look before you do:")
		for _, file := range res.Summary.Brought {
			tell("  %s", termsafe.Text(file))
		}
		if more := res.Summary.MoreBrought; more > 0 {
			tell("  and %d more", more)
		}
		branch, _, _ := strings.Cut(res.Summary.Brought[0], ":")
		tell("hint: git diff HEAD...%s", termsafe.Text(branch))
	}
	if res.Truncated {
		tell("cloister: not all files of the project were looked at: it is too large, or something in it cannot be read")
	}
	return out
}

// lasted is a length of time, rounded for a reader.
func lasted(d time.Duration) string {
	if d >= time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// mostHosts is how many hosts are named.
const mostHosts = 5

// traffic says what passed, the busiest hosts first.
func traffic(s api.SessionSummary) string {
	if s.Allowed == 0 {
		return "nothing left it"
	}
	text := many(s.Allowed, "connection or request", "connections and requests") + " allowed"
	hosts := slices.SortedStableFunc(slices.Values(s.Hosts), func(a, b api.HostCount) int { return b.Count - a.Count })
	if len(hosts) == 0 {
		return text
	}
	var names []string
	for _, h := range hosts[:min(len(hosts), mostHosts)] {
		names = append(names, fmt.Sprintf("%s %d", h.Host, h.Count))
	}
	if more := len(hosts) - mostHosts; more > 0 {
		names = append(names, fmt.Sprintf("%d more hosts", more))
	}
	return text + ": " + strings.Join(names, ", ")
}

func many(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// The two forms of hints that several destinations share (policy/allowing).
const (
	flagHead, flagTail = "cloister run --allow ", " -- CMD"
	lineHead, lineTail = "or for good, in config.yaml: proxy: {allow: [", "]}"
)

// refused names each destination, and then what would have allowed all of them.
func refused(res session.Result, again func(string) string) []string {
	var out, flags, lines []string
	list := res.Summary.Refusals
	for _, r := range list {
		dest := r.Host
		if dest == "" {
			dest = "a request"
		}
		if r.Port != 0 {
			dest = net.JoinHostPort(dest, strconv.Itoa(r.Port))
		}
		times := ""
		if r.Count > 1 {
			times = fmt.Sprintf(" (%d times)", r.Count)
		}
		out = append(out, fmt.Sprintf("cloister: refused %s%s: %s", dest, times, r.Reason))
		for _, h := range r.Hints {
			flag, isFlag := middle(h, flagHead, flagTail)
			line, isLine := middle(h, lineHead, lineTail)
			switch {
			case isFlag:
				flags = add(flags, flag)
			case isLine:
				lines = add(lines, line)
			default:
				out = append(out, "hint: "+again(h))
			}
		}
	}
	if len(flags) > 0 {
		out = append(out, "hint: "+again(flagHead+strings.Join(flags, " --allow ")+flagTail))
	}
	if len(lines) > 0 {
		out = append(out, "hint: "+again(lineHead+strings.Join(lines, ", ")+lineTail))
	}
	return out
}

func middle(s, head, tail string) (string, bool) {
	rest, ok := strings.CutPrefix(s, head)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, tail)
}

func add(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
