package apply

import (
	"path"
	"path/filepath"
	"strings"
)

// self is the folder of a journal: its inode, and its time of birth in nanoseconds since
// 1970 where the file system keeps one, which no program can set (statx(2)).
type self struct {
	Inode uint64 `json:"ino"`
	Born  int64  `json:"born"`
}

// isID reports whether create could have named a journal so.
func isID(id string) bool {
	return id != "" && len(id) <= 16 && !strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
}

// unsound is why a plan is none of this project's.
func unsound(p plan, project string) string {
	switch {
	case p.Project != project:
		return "it is of another project"
	case p.Undoes != "" && !isID(p.Undoes):
		return "it takes back what is no journal"
	}
	for _, s := range p.Steps {
		if s.Path == "." || path.Clean(s.Path) != s.Path || !filepath.IsLocal(s.Path) || strings.ContainsRune(s.Path, 0) {
			return "it leads out of the project"
		}
	}
	return ""
}
