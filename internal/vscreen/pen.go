package vscreen

import "strconv"

// pen is how characters are drawn. The zero value is a terminal's own way.
type pen struct {
	fg, bg colour
	attr   attribute
}

// colour is one of 256, or of 24 bits, or the terminal's own.
type colour uint32

const (
	indexed colour = 1 << 24
	direct  colour = 2 << 24
)

type attribute uint16

const (
	bold attribute = 1 << iota
	faint
	italic
	underlined
	blinking
	reversed
	invisible
	struck
)

// background is what erased cells have of the pen.
func (p pen) background() pen { return pen{bg: p.bg} }

// set obeys SGR.
func (p *pen) set(params [][]int) {
	for i := 0; i < len(params); i++ {
		n := params[i][0]
		switch {
		case n == 0:
			*p = pen{}
		case n == 4 && len(params[i]) > 1 && params[i][1] == 0:
			p.attr &^= underlined
		case n >= 1 && n <= 9:
			p.attr |= attributeOf(n)
		case n == 21:
			p.attr |= underlined
		case n == 22:
			p.attr &^= bold | faint
		case n >= 23 && n <= 29:
			p.attr &^= attributeOf(n - 20)
		case n >= 30 && n <= 37:
			p.fg = indexed | colour(n-30)
		case n == 39:
			p.fg = 0
		case n >= 40 && n <= 47:
			p.bg = indexed | colour(n-40)
		case n == 49:
			p.bg = 0
		case n >= 90 && n <= 97:
			p.fg = indexed | colour(n-90+8)
		case n >= 100 && n <= 107:
			p.bg = indexed | colour(n-100+8)
		case n == 38 || n == 48 || n == 58:
			c, used, ok := extended(params[i:])
			i += used
			if ok && n == 38 {
				p.fg = c
			}
			if ok && n == 48 {
				p.bg = c
			}
		}
	}
}

// attributeOf is the attribute that SGR numbers 1 to 9.
func attributeOf(n int) attribute {
	switch n {
	case 1:
		return bold
	case 2:
		return faint
	case 3:
		return italic
	case 4:
		return underlined
	case 5, 6:
		return blinking
	case 7:
		return reversed
	case 8:
		return invisible
	case 9:
		return struck
	}
	return 0
}

// extended reads a colour behind 38, 48 or 58: with colons within one parameter,
// or as parameters of their own, of which it tells how many.
func extended(params [][]int) (c colour, used int, ok bool) {
	var v []int
	if len(params[0]) > 1 {
		v = params[0][1:]
		if v[0] == 2 && len(v) > 4 {
			v = append([]int{2}, v[len(v)-3:]...) // with a colour space before the three
		}
	} else {
		for _, p := range params[1:] {
			v = append(v, p[0])
		}
	}
	switch {
	case len(v) >= 2 && v[0] == 5:
		c, used = indexed|colour(v[1]&0xff), 2
	case len(v) >= 4 && v[0] == 2:
		c, used = direct|colour(v[1]&0xff)<<16|colour(v[2]&0xff)<<8|colour(v[3]&0xff), 4
	default:
		return 0, len(params) - 1, false
	}
	if len(params[0]) > 1 {
		used = 0
	}
	return c, used, true
}

// append writes the sequence that makes a fresh pen this one.
func (p pen) append(out []byte) []byte {
	out = append(out, "\x1b[0"...)
	for i, n := range []string{"1", "2", "3", "4", "5", "7", "8", "9"} {
		if p.attr&(1<<i) != 0 {
			out = append(append(out, ';'), n...)
		}
	}
	out = p.fg.append(out, 30)
	out = p.bg.append(out, 40)
	return append(out, 'm')
}

func (c colour) append(out []byte, base int) []byte {
	n := int(c & 0xff)
	switch {
	case c == 0:
		return out
	case c&direct != 0:
		out = append(out, ';')
		out = strconv.AppendInt(out, int64(base+8), 10)
		out = append(out, ";2"...)
		for _, shift := range []int{16, 8, 0} {
			out = strconv.AppendInt(append(out, ';'), int64(c>>shift&0xff), 10)
		}
		return out
	case n < 8:
		return strconv.AppendInt(append(out, ';'), int64(base+n), 10)
	case n < 16:
		return strconv.AppendInt(append(out, ';'), int64(base+60+n-8), 10)
	default:
		out = strconv.AppendInt(append(out, ';'), int64(base+8), 10)
		return strconv.AppendInt(append(out, ";5;"...), int64(n), 10)
	}
}
