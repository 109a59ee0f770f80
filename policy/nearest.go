package policy

import (
	"fmt"
	"strings"
)

// didYouMean names the known word nearest to a wrong one, or lists them all
// where none is near.
func didYouMean(wrong string, known []string) string {
	best, bestDistance := "", len(wrong)/3+2
	for _, k := range known {
		if d := distance(strings.ToLower(wrong), strings.ToLower(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known are " + strings.Join(known, ", ")
}

// distance is Levenshtein's, for words of a bounded length.
func distance(a, b string) int {
	const most = 64
	if len(a) > most || len(b) > most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
