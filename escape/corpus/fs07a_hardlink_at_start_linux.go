package corpus

import (
	"os"

	"cloister/escape"
)

func fs07a() escape.Case {
	return escape.Case{
		ID: "FS-07a", Class: "hardlink alias at start", Attack: "start with a file of the project that is the same inode as one outside: the person is told",
		Source: "FS-07", Layers: []string{"start-up scan"},
		Host: func(w *escape.World) []escape.Finding {
			link := w.Project + "/linked"
			if err := os.Link(w.Outside+"/canary", link); err != nil {
				return escape.NoHost("make a hard link", err)
			}
			defer os.Remove(link)
			with := w.Outcome(nil, "true")
			if err := os.Remove(link); err != nil {
				return escape.NoHost("remove the link", err)
			}
			without := w.Outcome(nil, "true")
			return []escape.Finding{
				found("the person is told of it", len(unwanted(with.Stderr, "hard link", "linked")) > 0, "status %d: %s", with.Status, with.Stderr),
				found("control: without it nothing is told", len(unwanted(without.Stderr, "hard link")) == 0, "%s", without.Stderr),
			}
		},
	}
}
