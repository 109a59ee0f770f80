package vscreen

import "unicode/utf8"

// parser finds the sequences in a stream of bytes, after the state machine of
// DEC's terminals (Paul Williams, vt100.net/emu/dec_ansi_parser).
type parser struct {
	state  state
	prefix byte    // < = > ? right after CSI
	middle byte    // an intermediate; of several the last
	params [][]int // each with the parts that colons divide it into
	text   [4]byte // a character under way
	have   int
	want   int
}

type state uint8

const (
	ground state = iota
	escape
	sequence // after CSI
	message  // of a string that is passed over
	messageEscape
)

// maxParams bounds the parameters of a sequence, and the parts of one.
const maxParams, maxParam = 32, 65535

const esc = 0x1b

func (p *parser) step(s *Screen, b byte) {
	switch {
	case p.state == message:
		switch b {
		case 0x07, 0x18, 0x1a:
			p.state = ground
		case esc:
			p.state = messageEscape
		}
		return
	case p.state == messageEscape && b == '\\':
		p.state = ground
		return
	case b == esc:
		p.begin(escape)
		return
	case b == 0x18 || b == 0x1a:
		p.begin(ground)
		return
	case b < 0x20:
		p.flush(s)
		s.control(b)
		return
	}
	switch p.state {
	case ground:
		p.character(s, b)
	case sequence:
		p.inSequence(s, b)
	default:
		p.state = escape
		p.afterEscape(s, b)
	}
}

func (p *parser) begin(next state) {
	p.state, p.prefix, p.middle, p.params, p.want, p.have = next, 0, 0, p.params[:0], 0, 0
}

// flush draws a character that was cut short as what it is not.
func (p *parser) flush(s *Screen) {
	if p.want > 0 {
		p.want, p.have = 0, 0
		s.print(utf8.RuneError)
	}
}

func (p *parser) character(s *Screen, b byte) {
	switch {
	case b < 0x80:
		p.flush(s)
		if b != 0x7f {
			s.print(rune(b))
		}
		return
	case b >= 0xc0:
		p.flush(s)
		p.have, p.want = 0, 2
		if b >= 0xe0 {
			p.want++
		}
		if b >= 0xf0 {
			p.want++
		}
	case p.want == 0:
		return // a C1 control, which no program needs, or half a character
	}
	p.text[p.have] = b
	p.have++
	if p.have == p.want {
		r, _ := utf8.DecodeRune(p.text[:p.have])
		p.want, p.have = 0, 0
		if r >= 0xa0 {
			s.print(r)
		}
	}
}

func (p *parser) afterEscape(s *Screen, b byte) {
	switch {
	case b == '[':
		p.begin(sequence)
		p.param()
	case b == ']' || b == 'P' || b == '^' || b == '_' || b == 'X' || b == 'k':
		p.state = message
	case b >= 0x20 && b < 0x30:
		p.middle = b
	default:
		p.state = ground
		if b < 0x80 {
			s.escaped(p.middle, b)
		}
	}
}

func (p *parser) inSequence(s *Screen, b byte) {
	switch {
	case b >= '0' && b <= '9':
		last := p.params[len(p.params)-1]
		n := &last[len(last)-1]
		*n = min(*n*10+int(b-'0'), maxParam)
	case b == ';' && len(p.params) < maxParams:
		p.param()
	case b == ':' && len(p.params[len(p.params)-1]) < maxParams:
		p.params[len(p.params)-1] = append(p.params[len(p.params)-1], 0)
	case b >= '<' && b <= '?':
		p.prefix = b
	case b >= 0x20 && b < 0x30:
		p.middle = b
	case b >= 0x40 && b < 0x7f:
		p.state = ground
		s.obey(sequenceOf{p.prefix, p.middle, b}, p.params)
	case b >= 0x80:
		p.state = ground
		p.character(s, b)
	}
}

// param begins the next parameter, in the memory of earlier ones.
func (p *parser) param() {
	n := len(p.params)
	if n == cap(p.params) {
		p.params = append(p.params, nil)
	}
	p.params = p.params[:n+1]
	p.params[n] = append(p.params[n][:0], 0)
}

func (s *Screen) answer(text string) {
	if s.reply != nil {
		s.reply([]byte(text))
	}
}
