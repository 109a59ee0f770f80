package corpus

import (
	"errors"
	"net"
	"os"
	"strings"

	"cloister/escape"
)

func nw45() escape.Case {
	return escape.Case{
		ID: "NW-45", Class: "neighbour sandboxes", Attack: "knock at the ports of another cloister on every address that engines give, by broadcast and by multicast",
		Source: "docker's bridge lets containers of one network meet", Layers: []string{"net"}, Only: []escape.Column{escape.Docker},
		Host: func(w *escape.World) []escape.Finding {
			free, err := net.Listen("tcp", ":0")
			if err != nil {
				return escape.NoHost("find a port", err)
			}
			_, port, err := net.SplitHostPort(free.Addr().String())
			if err = errors.Join(err, free.Close()); err != nil {
				return escape.NoHost("find a port", err)
			}
			mark := w.Project + "/listening45"
			defer clean(mark)
			done := make(chan escape.Result, 1)
			go func() {
				done <- w.Outcome([]string{"--name", "nb45", "--expose", w.Self, "--timeout", "60s"}, w.Self, "listen", port, mark)
			}()
			there := w.Until(patient, func() bool { return exists(mark) })
			at := []string{"127.0.0.1:" + port, "[::1]:" + port}
			for _, host := range []string{"172.17.0.1", "172.17.0.2", "172.17.0.3", "10.88.0.1", "10.88.0.2", "192.168.0.2", "198.18.0.1", "nb45", "[fe80::1]"} {
				at = append(at, host+":"+port)
			}
			at = append(at, "udp/255.255.255.255:"+port, "udp/224.0.0.1:"+port, "udp/[ff02::1]:"+port)
			knock := w.Outcome([]string{"--expose", w.Self}, append([]string{w.Self, "knock"}, at...)...)
			itself, err := w.Exec(w.Cloister, "exec", "nb45", "--", w.Self, "knock", "127.0.0.1:"+port)
			_ = os.Remove(mark)
			ended := <-done
			if err != nil {
				return escape.NoHost("knock in the neighbour", err)
			}
			return []escape.Finding{
				found("the neighbour listens", there, "status %d: %s", ended.Status, ended.Stderr),
				found("every door was tried", strings.Count(knock.Stdout, "\n") == len(at), "status %d: %s%s", knock.Status, knock.Stdout, knock.Stderr),
				found("none was opened", !strings.Contains(knock.Stdout, "reached"), "%s", knock.Stdout),
				found("control: the neighbour reaches itself", strings.HasPrefix(itself.Stdout, "reached"), "status %d: %s%s", itself.Status, itself.Stdout, itself.Stderr),
			}
		},
	}
}
