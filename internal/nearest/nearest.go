// Package nearest finds the word that a person probably meant.
//
// It promises never to guess wildly: a word is offered only when at most a
// third of its letters differ, or one. It does not complete prefixes and it does not
// translate; it compares spellings. Most readers want [Word].
package nearest

import (
	"fmt"
	"slices"
	"strings"
)

// Word returns the candidate closest to typed, or "" when none is close. Of
// equally close ones the first wins.
func Word(typed string, candidates []string) string {
	best, bestDistance := "", max(1, len(typed)/3)+1
	for _, c := range candidates {
		if d := distance(typed, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// Hint offers the known word nearest to a wrong one, whatever the case of its letters,
// or lists them all where none is near.
func Hint(wrong string, known []string) string {
	lower := make([]string, len(known))
	for i, k := range known {
		lower[i] = strings.ToLower(k)
	}
	if best := Word(strings.ToLower(wrong), lower); best != "" {
		return fmt.Sprintf("did you mean %q?", known[slices.Index(lower, best)])
	}
	return "known are " + strings.Join(known, ", ")
}

// distance counts the letters to insert, drop, replace or swap with their
// neighbour (optimal string alignment). Long words are cut: no one types a key
// of 64 letters, and the cost is the product of both lengths.
func distance(a, b string) int {
	const most = 64
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
