package house_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// filesP90 is how many lines nine of ten product files have at most, sameName how many
// types of one name there may be: one thing has one type. The numbers fall.
const filesP90 = 300

var sameName = map[string]int{"Verdict": 1, "Login": 1, "Position": 1}

// TestFigures holds the figures of docs/house.md, and prints them: go test . -run TestFigures -v.
func TestFigures(t *testing.T) {
	var lengths []int
	rooms, types := map[string]int{}, map[string]int{}
	kind := regexp.MustCompile(`(?m)^(?:type (\w+) (?:struct|interface|string|int|uint8)|\t(\w+) (?:struct|interface) \{)`)
	for _, f := range files(t) {
		if !inProduct(f) || path.Base(f.dir) == "cloister-escape" {
			continue
		}
		lengths = append(lengths, f.lines)
		rooms[f.dir] += f.lines
		text, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range kind.FindAllSubmatch(text, -1) {
			types[string(found[1])+string(found[2])]++
		}
	}
	slices.Sort(lengths)
	sum, over := 0, 0
	for _, n := range rooms {
		if sum += n; n > roomMost {
			over++
		}
	}
	p90 := lengths[len(lengths)*9/10]
	t.Logf("%d product lines in %d files of %d packages; a file has %d lines at the median, %d at p90, %d at most; %d packages over %d lines",
		sum, len(lengths), len(rooms), lengths[len(lengths)/2], p90, lengths[len(lengths)-1], over, roomMost)
	if p90 > filesP90 {
		t.Errorf("of ten files one has more than %d lines, not %d: split what grew", p90, filesP90)
	}
	for name, most := range sameName {
		switch n := types[name]; {
		case n > most:
			t.Errorf("%d types are called %s, over %d: use the one that is there", n, name, most)
		case n < most:
			t.Logf("%d types are called %s: lower its number", n, name)
		}
	}
}
