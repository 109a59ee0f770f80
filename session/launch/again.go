package launch

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"cloister/api"
	"cloister/internal/exactjson"
	"cloister/workspace"
)

// Again is the order as one that starts the like of this cloister from any folder. It is
// empty where a child of its memory cannot be started: without a kept workspace.
func (o *Order) Again(p workspace.Project, argv []string, cedar []api.CedarFile) json.RawMessage {
	if o.Workspace != "overlay" || o.Verb != "run" && o.Verb != "start" {
		return nil
	}
	c := *o
	c.Project = string(p.Root)
	if c.Branch != "" {
		c.Project = string(p.Main)
	}
	if c.Verb == "run" {
		c.Args = argv
	}
	c.Policy, c.Cedar = nil, cedar // what they said then
	c.Awaited, c.From, c.Expose, c.Refs = false, "", whole(c.Expose), whole(c.Refs)
	text, err := exactjson.Marshal(c)
	if err != nil {
		panic(err) // an order is text and numbers, and came as JSON or becomes it anyway
	}
	return text
}

// whole makes paths of the current folder ones of any.
func whole(list []string) []string {
	out := slices.Clone(list)
	for i, p := range out {
		if strings.HasPrefix(p, "~") {
			continue
		}
		if full, err := filepath.Abs(p); err == nil {
			out[i] = full
		}
	}
	return out
}
