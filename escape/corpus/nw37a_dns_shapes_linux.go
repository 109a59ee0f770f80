package corpus

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"time"

	"cloister/escape"
)

func nw37a() escape.Case {
	return escape.Case{
		ID: "NW-37a", Class: "DNS, other questions", Attack: "records that could carry data or lead round the gate, of an allowed name; other classes and operations, two questions, loops, names with other letters; over UDP and TCP",
		Source: "CVE-2025-55284; HARDENING 5.5 (A only, no HTTPS records)", Layers: []string{"DNS forwards nothing", "policy", "net"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			ask := func(name, question string) {
				out = append(out, net1(name, func() error { return askGate(in, "udp", question, 2*time.Second) }), net1(name+", TCP", func() error { return askGate(in, "tcp", question, 2*time.Second) }))
			}
			for name, kind := range map[string]uint16{
				"NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "NAPTR": 35, "DNAME": 39, "SVCB": 64, "HTTPS": 65, "SPF": 99, "URI": 256, "CAA": 257, "ANY": 255, "AXFR": 252, "IXFR": 251, "type 65280": 65280,
			} {
				ask(name+" of an allowed name", query(0x0100, [][]byte{asked("allowed.test", kind, 1)}))
			}
			ask("class CH", query(0x0100, [][]byte{asked("version.bind", 16, 3)}))
			ask("class ANY", query(0x0100, [][]byte{asked("denied37.test", 1, 255)}))
			ask("two questions", query(0x0100, [][]byte{asked("allowed.test", 1, 1), asked("denied37.test", 1, 1)}))
			ask("an update", query(5<<11, [][]byte{asked("allowed.test", 6, 1)}))
			ask("a notification", query(4<<11, [][]byte{asked("allowed.test", 6, 1)}))
			ask("no question", query(0x0100, nil))
			ask("a name that points at itself", query(0x0100, [][]byte{{0xc0, 12, 0, 1, 0, 1}}))
			ask("a label that ends nowhere", query(0x0100, [][]byte{{63, 'a', 0, 1, 0, 1}}))
			ask("a name of 255 with its root", query(0x0100, [][]byte{asked(strings.Repeat(strings.Repeat("a", 62)+".", 4)+"wild.test", 1, 1)}))
			ask("a name with a byte 0", query(0x0100, [][]byte{asked("evil\x00.allowed.test", 1, 1)}))
			ask("a name with a dot in a label", query(0x0100, [][]byte{append([]byte("\x0callowed.test\x00"), 0, 1, 0, 1)}))
			ask("a denied name", query(0x0100, [][]byte{asked("denied37.test", 1, 1)}))
			return append(out, escape.Try{Name: "an address of an allowed name must come", Held: []error{escape.ErrNothing}, Do: func() error {
				if in.Control {
					return nil
				}
				if err := askGate(in, "udp", query(0x0100, [][]byte{asked("allowed.test", 1, 1)}), patience); err != nil {
					return fmt.Errorf("the way is not there: %w", err)
				}
				return escape.ErrNothing
			}})
		},
	}
}

// asked is one question; what stands between dots is a label as it is.
func asked(name string, kind, class uint16) []byte {
	var out []byte
	for label := range strings.SplitSeq(name, ".") {
		out = append(append(out, byte(len(label))), label...)
	}
	out = append(out, 0)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, kind), class)
}

func query(flags uint16, questions [][]byte) string {
	out := binary.BigEndian.AppendUint16([]byte{0x12, 0x34}, flags)
	out = binary.BigEndian.AppendUint16(out, uint16(len(questions)))
	out = append(out, make([]byte, 6)...)
	for _, q := range questions {
		out = append(out, q...)
	}
	return string(out)
}

// askGate asks the gate; an answer with a record in any section is success.
func askGate(in escape.Inside, network, question string, wait time.Duration) error {
	if in.Control {
		return talk(network, sink(in), question)
	}
	c, err := net.DialTimeout(network, "198.18.0.1:53", patience)
	if err != nil {
		return plain(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if network == "tcp" {
		question = string(binary.BigEndian.AppendUint16(nil, uint16(len(question)))) + question
	}
	if _, err := c.Write([]byte(question)); err != nil {
		return plain(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		return escape.ErrNothing // what is no question gets no answer
	}
	head := buf[:n]
	if network == "tcp" {
		head = head[min(2, n):]
	}
	// An additional record is the reason of a refusal (RFC 8914): no data.
	if len(head) < 12 || head[6] == 0 && head[7] == 0 && head[8] == 0 && head[9] == 0 {
		return escape.ErrRefused
	}
	return nil
}
