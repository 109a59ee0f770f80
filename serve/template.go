package serve

// Template is what a sandbox is made of.
type Template struct {
	Name  string
	Image string // empty for the host's own system
}

// baseTemplate is the template of which sandboxes are made ahead.
const baseTemplate = "base"

// templateOf gives the template of a name. "base" is the host's own system.
func templateOf(name string) Template { return Template{Name: name} }
