// Package linediff shows a text as changes to an older one, for a person to read.
//
// It compares lines, and promises that every line of both is shown: a person who agrees to a
// text must have seen all of it. It makes no patch: nothing says where a change is. The
// call most readers want is Changes.
package linediff

import (
	"slices"
	"strings"
)

// Changes are the lines of after with +, those of before that are not in it with -,
// and those that stay with neither.
func Changes(before, after string) []string {
	x, y := lines(before), lines(after)
	var out []string
	if max(len(x), len(y)) > most {
		return marked(marked(out, "- ", x), "+ ", y)
	}
	// The longest common part, by how much of it is left from each place on.
	left := make([][]int, len(x)+1)
	for i := range left {
		left[i] = make([]int, len(y)+1)
	}
	for i := range slices.Backward(x) {
		for j := len(y) - 1; j >= 0; j-- {
			left[i][j] = max(left[i+1][j], left[i][j+1])
			if x[i] == y[j] {
				left[i][j] = left[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			out = append(out, "  "+x[i])
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && left[i+1][j] >= left[i][j+1]:
			out = append(out, "- "+x[i])
			i++
		default:
			out = append(out, "+ "+y[j])
			j++
		}
	}
	return out
}

// most bounds the lines that are compared, which costs their product: longer texts are
// shown one after the other.
const most = 2000

func marked(out []string, mark string, lines []string) []string {
	for _, l := range lines {
		out = append(out, mark+l)
	}
	return out
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
