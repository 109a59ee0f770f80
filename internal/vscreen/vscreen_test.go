package vscreen_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/internal/vscreen"
)

// shown is a screen's lines without trailing blanks, and the cursor.
func shown(s *vscreen.Screen) string {
	var b strings.Builder
	for y := range s.Size().Rows {
		fmt.Fprintf(&b, "%s|\n", s.Line(y))
	}
	x, y, on := s.Cursor()
	fmt.Fprintf(&b, "cursor %d,%d %t", x, y, on)
	return b.String()
}

func TestScreen(t *testing.T) {
	for _, c := range []struct {
		name, in string
		size     vscreen.Size
		want     []string // lines
		cursor   string
	}{
		{"lines", "one\r\ntwo", vscreen.Size{Cols: 5, Rows: 2}, []string{"one", "two"}, "3,1"},
		{"scroll", "1\r\n2\r\n3", vscreen.Size{Cols: 5, Rows: 2}, []string{"2", "3"}, "1,1"},
		{"wrap", "abcdef", vscreen.Size{Cols: 5, Rows: 2}, []string{"abcde", "f"}, "1,1"},
		{"wrap waits", "abcde", vscreen.Size{Cols: 5, Rows: 2}, []string{"abcde", ""}, "4,0"},
		{"no wrap", "\x1b[?7labcdefg", vscreen.Size{Cols: 5, Rows: 2}, []string{"abcdg", ""}, "4,0"},
		{"wide", "日本語", vscreen.Size{Cols: 5, Rows: 2}, []string{"日本", "語"}, "2,1"},
		{"half of a wide one", "日\x1b[1;2Hx", vscreen.Size{Cols: 5, Rows: 1}, []string{" x"}, "2,0"},
		{"mark", "e\u0301x", vscreen.Size{Cols: 5, Rows: 1}, []string{"e\u0301x"}, "2,0"},
		{"colour", "\x1b[1;38;5;200mx\x1b[38;2;1;2;3my\x1b[mz", vscreen.Size{Cols: 5, Rows: 1}, []string{"\x1b[0;1;38;5;200mx\x1b[0;1;38;2;1;2;3my\x1b[0mz"}, "3,0"},
		{"colour with colons", "\x1b[38:2::1:2:3;4:0mx", vscreen.Size{Cols: 5, Rows: 1}, []string{"\x1b[0;38;2;1;2;3mx\x1b[0m"}, "1,0"},
		{"erase has the background", "\x1b[44m\x1b[2J", vscreen.Size{Cols: 2, Rows: 1}, []string{"\x1b[0;44m  \x1b[0m"}, "0,0"},
		{"insert", "abc\x1b[1;1H\x1b[4hX", vscreen.Size{Cols: 5, Rows: 1}, []string{"Xabc"}, "1,0"},
		{"delete", "abc\x1b[1;1H\x1b[2P", vscreen.Size{Cols: 5, Rows: 1}, []string{"c"}, "0,0"},
		{"region", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\nx", vscreen.Size{Cols: 2, Rows: 4}, []string{"1", "3", "x", "4"}, "1,2"},
		{"insert line", "1\r\n2\r\n3\x1b[2;1H\x1b[L", vscreen.Size{Cols: 2, Rows: 3}, []string{"1", "", "2"}, "0,1"},
		{"reverse feed", "1\r\n2\x1b[H\x1bM0", vscreen.Size{Cols: 2, Rows: 2}, []string{"0", "1"}, "1,0"},
		{"alternate and back", "main\x1b[?1049h\x1b[Hother\x1b[?1049l!", vscreen.Size{Cols: 6, Rows: 1}, []string{"main!"}, "5,0"},
		{"drawn lines", "\x1b(0qx\x1b(B", vscreen.Size{Cols: 6, Rows: 1}, []string{"─│"}, "2,0"},
		{"strings are passed over", "a\x1b]0;title\x07b\x1bPq#0\x1b\\c", vscreen.Size{Cols: 6, Rows: 1}, []string{"abc"}, "3,0"},
		{"control inside a sequence", "ab\x1b[\b1Cx", vscreen.Size{Cols: 6, Rows: 1}, []string{"abx"}, "3,0"},
		{"invalid UTF-8", "a\xc3(\xffb", vscreen.Size{Cols: 6, Rows: 1}, []string{"a\ufffd(\ufffdb"}, "5,0"},
		{"one place", "日ab\x1b[5;5H\x1b[L\x1b[4h\x1b[9Pc", vscreen.Size{Cols: 1, Rows: 1}, []string{"c"}, "0,0"},
		{"repeat", "a\x1b[3b", vscreen.Size{Cols: 6, Rows: 1}, []string{"aaaa"}, "4,0"},
		{"tabs", "\ta\x1b[3g\r\tb", vscreen.Size{Cols: 12, Rows: 1}, []string{"        a  b"}, "11,0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := vscreen.New(c.size, nil)
			s.Draw([]byte(c.in))
			want := strings.Join(c.want, "|\n") + "|\ncursor " + c.cursor + " true"
			if diff := cmp.Diff(want, shown(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"\x1b[c", "\x1b[?62;22c"},
		{"\x1b[>c", "\x1b[>1;10;0c"},
		{"ab\x1b[6n", "\x1b[1;3R"},
		{"\x1b[5n", "\x1b[0n"},
		{"\x1b[?2004h\x1b[?2004$p", "\x1b[?2004;1$y"},
		{"\x1b[?25$p", "\x1b[?25;1$y"},
		{"\x1b[?4711$p", "\x1b[?4711;0$y"},
		{"\x1b[?u\x1b[>q\x1b]11;?\x07", ""},
	} {
		var got []byte
		s := vscreen.New(vscreen.Size{Cols: 10, Rows: 3}, func(b []byte) { got = append(got, b...) })
		s.Draw([]byte(c.in))
		if string(got) != c.want {
			t.Errorf("%q is answered by %q, want %q", c.in, got, c.want)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := vscreen.New(vscreen.Size{Cols: 200, Rows: 10}, nil)
	for i := range 20_000 {
		s.Draw(fmt.Appendf(nil, "\x1b[38;2;%d;2;3m%0150d\r\n", i%256, i))
	}
	lines := s.History()
	bytes := 0
	for _, l := range lines {
		bytes += len(l)
	}
	if len(lines) == 0 || len(lines) > 2000 || bytes > 1<<20 {
		t.Errorf("%d lines of %d bytes", len(lines), bytes)
	}
	if want := fmt.Sprintf("%0150d", 20_000-10); !strings.Contains(lines[len(lines)-1], want) {
		t.Errorf("the last line that left is %q", lines[len(lines)-1])
	}
}

func TestResize(t *testing.T) {
	s := vscreen.New(vscreen.Size{Cols: 6, Rows: 4}, nil)
	s.Draw([]byte("one\r\ntwo\r\nthree\r\nfour"))
	s.Resize(vscreen.Size{Cols: 3, Rows: 2})
	if want := "thr|\nfou|\ncursor 2,1 true"; shown(s) != want {
		t.Errorf("smaller: %s", shown(s))
	}
	if got := strings.Join(s.History(), ","); got != "one,two" {
		t.Errorf("history %s", got)
	}
	s.Resize(vscreen.Size{Cols: 5, Rows: 3})
	if want := "thr|\nfou|\n|\ncursor 2,1 true"; shown(s) != want {
		t.Errorf("larger: %s", shown(s))
	}
}

func TestLeave(t *testing.T) {
	s := vscreen.New(vscreen.Size{Cols: 6, Rows: 4}, nil)
	other := vscreen.New(vscreen.Size{Cols: 6, Rows: 4}, nil)
	for _, in := range []string{"$ run\r\n\x1b[?1049h\x1b[?1000h\x1b[?25l\x1b[2;3r\x1b[31mfull", "\x1b[?2004h\x1b[5 q"} {
		s.Draw([]byte(in))
		other.Draw([]byte(in))
	}
	other.Draw(s.Leave())
	if want := "$ run|\n|\n|\n|\ncursor 0,2 true"; shown(other) != want {
		t.Errorf("left as %s", shown(other))
	}
	if got := other.Replay(); bytes.Contains(got, []byte("1000h")) || bytes.Contains(got, []byte("2004h")) || bytes.Contains(got, []byte("5 q")) {
		t.Errorf("modes are left: %q", got)
	}
}

// FuzzReplay holds that whatever was written, another terminal that gets the
// replay shows the same, goes on in the same way, and answers nothing.
func FuzzReplay(f *testing.F) {
	for _, seed := range []string{
		"hello\r\nworld", "\x1b[?1049h\x1b[2;4r\x1b[?6h\x1b[3;3Hx\x1b[31;44m\x1b[J", "日本語\x1b[1;2Hx\x1b[4hy",
		"abcdefghij", "\x1b(0lqk\x0e\x1b)0", "\x1b7\x1b[5;5H\x1b8\x1b[?7lzzzzzzzzzzzzz", "\x1b[38;2;1;2;3mx\x1b[7@\x1b[3X",
		"e\u0301\u0302\u200d", "\x1b[?1000h\x1b[?2004h\x1b[?25l\x1b=\x1b[4 q", "\x1b#8\x1b[S\x1b[2T\x1bM\x1bD", "\x1b[2;3r\x1b[99;99H日",
	} {
		f.Add([]byte(seed), uint8(10), uint8(5))
	}
	f.Fuzz(func(t *testing.T, in []byte, cols, rows uint8) {
		size := vscreen.Size{Cols: int(cols)%40 + 1, Rows: int(rows)%20 + 1}
		s := vscreen.New(size, func([]byte) {})
		s.Draw(in)
		for _, how := range []string{"replay", "repaint"} {
			other := vscreen.New(size, func(b []byte) { t.Errorf("the %s makes a terminal answer %q", how, b) })
			other.Draw([]byte("what was\r\nthere \x1b[31mbefore"))
			if how == "replay" {
				other.Draw(s.Replay())
			} else {
				other.Draw(s.Repaint())
			}
			same(t, how, s, other)
			// What comes next does the same to both.
			a, b := clone(s), other
			more := []byte("\x1b[0m-\x1b[Kx\ny\x1bM\tz\x1b[?1049lw")
			a.Draw(more)
			b.Draw(more)
			same(t, how+", then more", a, b)
		}
		s.Resize(vscreen.Size{Cols: int(rows)%40 + 1, Rows: int(cols)%20 + 1})
		s.Draw(in)
		s.Leave()
	})
}

func same(t *testing.T, how string, want, got *vscreen.Screen) {
	t.Helper()
	if diff := cmp.Diff(shown(want), shown(got)); diff != "" {
		t.Fatalf("after the %s: %s", how, diff)
	}
}

func clone(s *vscreen.Screen) *vscreen.Screen {
	c := vscreen.New(s.Size(), nil)
	c.Draw(s.Repaint())
	return c
}

func BenchmarkDraw(b *testing.B) {
	text := []byte(strings.Repeat("\x1b[1;32mdrwxr-xr-x\x1b[0m  2 you you 4096 Nov 21 17:00 \x1b[34mfolder\x1b[0m\r\n", 100))
	s := vscreen.New(vscreen.Size{Cols: 120, Rows: 50}, nil)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Draw(text)
	}
}
