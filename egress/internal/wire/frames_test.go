package wire_test

import (
	"bytes"
	"slices"
	"testing"

	"cloister/egress/internal/wire"
)

// frame is one WebSocket frame of n bytes of data.
func frame(first byte, masked bool, n int) []byte {
	out := []byte{first, 0}
	switch {
	case n < 126:
		out[1] = byte(n)
	case n < 1<<16:
		out[1] = 126
		out = append(out, byte(n>>8), byte(n))
	default:
		out[1] = 127
		out = append(out, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	if masked {
		out[1] |= 0x80
		out = append(out, 1, 2, 3, 4)
	}
	return append(out, bytes.Repeat([]byte{0x82}, n)...)
}

func TestFrames(t *testing.T) {
	text, binary, more, last, ping, closing := byte(0x81), byte(0x82), byte(0x01), byte(0x80), byte(0x89), byte(0x88)
	for _, tt := range []struct {
		name string
		scan wire.FrameScan
		in   []byte
		good bool
	}{
		{"text", wire.FrameScan{}, frame(text, false, 5), true},
		{"of a client", wire.FrameScan{Masked: true}, frame(text, true, 5), true},
		{"all lengths", wire.FrameScan{}, slices.Concat(frame(binary, false, 0), frame(binary, false, 125), frame(binary, false, 126), frame(binary, false, 70000), frame(ping, false, 125)), true},
		{"a ping amid a message", wire.FrameScan{}, slices.Concat(frame(more, false, 3), frame(ping, false, 2), frame(0, false, 1), frame(last, false, 1), frame(text, false, 1)), true},
		{"compressed", wire.FrameScan{Extended: true}, frame(0xc1, false, 9), true},
		{"compressed, not agreed on", wire.FrameScan{}, frame(0xc1, false, 9), false},
		{"unmasked by a client", wire.FrameScan{Masked: true}, frame(text, false, 5), false},
		{"masked by a server", wire.FrameScan{}, frame(text, true, 5), false},
		{"unknown kind", wire.FrameScan{}, frame(0x83, false, 1), false},
		{"reserved bits", wire.FrameScan{Extended: true}, frame(0xa1, false, 1), false},
		{"a ping in parts", wire.FrameScan{}, frame(0x09, false, 1), false},
		{"a long ping", wire.FrameScan{}, frame(ping, false, 126), false},
		{"a part of nothing", wire.FrameScan{}, frame(last, false, 1), false},
		{"a message within another", wire.FrameScan{}, slices.Concat(frame(more, false, 1), frame(text, false, 1)), false},
		{"a length in too many bytes", wire.FrameScan{}, []byte{text, 126, 0, 5, 1, 2, 3, 4, 5}, false},
		{"a length below zero", wire.FrameScan{}, []byte{text, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, false},
		{"after the close", wire.FrameScan{}, slices.Concat(frame(closing, false, 2), []byte("x")), false},
		{"another protocol", wire.FrameScan{Masked: true}, []byte("SSH-2.0-OpenSSH_9.2\r\n"), false},
	} {
		whole := tt.scan
		if err := whole.Scan(tt.in); (err == nil) != tt.good {
			t.Errorf("%s: %v", tt.name, err)
		}
		single := tt.scan
		var err error
		for i := range tt.in {
			if err = single.Scan(tt.in[i : i+1]); err != nil {
				break
			}
		}
		if (err == nil) != tt.good {
			t.Errorf("%s, byte by byte: %v", tt.name, err)
		}
	}
}

// FuzzFrames: however the bytes are cut, the answer is the same.
func FuzzFrames(f *testing.F) {
	f.Add(frame(0x81, true, 5), 3, true)
	f.Add(slices.Concat(frame(1, false, 3), frame(0x80, false, 200)), 1, false)
	f.Fuzz(func(t *testing.T, in []byte, cut int, masked bool) {
		whole := wire.FrameScan{Masked: masked}
		err := whole.Scan(in)
		cut = min(max(cut, 0), len(in))
		parts := wire.FrameScan{Masked: masked}
		first := parts.Scan(in[:cut])
		if first == nil {
			first = parts.Scan(in[cut:])
		}
		if (first == nil) != (err == nil) {
			t.Fatalf("whole %v, cut at %d %v", err, cut, first)
		}
	})
}
