package main

import "testing"

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name         string
		files        int
		arrows       [][2]int
		back, levels int
	}{
		{"alone", 2, nil, 0, 1},
		{"a chain against the names", 4, [][2]int{{3, 2}, {2, 1}, {1, 0}}, 0, 4},
		{"a circle", 3, [][2]int{{0, 1}, {1, 2}, {2, 0}}, 1, 3},
		{"two that know each other", 3, [][2]int{{0, 1}, {1, 0}, {0, 2}}, 1, 2},
	} {
		m := newMatrix(c.files)
		for _, a := range c.arrows {
			m[a[0]][a[1]] = true
		}
		back, levels := m.order(20)
		if m.arrows() != len(c.arrows) || back != c.back || levels != c.levels {
			t.Errorf("%s: %d arrows, %d back, %d levels; want %d, %d, %d", c.name, m.arrows(), back, levels,
				len(c.arrows), c.back, c.levels)
		}
	}
}
