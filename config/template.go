package config

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed templates/*.yaml
var templateFiles embed.FS

// Template is a project's file to start from.
type Template struct {
	Name string
	Text []byte
	// Signs are files at the top of a project that it is for.
	Signs []string
}

// TemplateNames lists the templates by name, sorted.
func TemplateNames() []string { return named(templateFiles, "templates") }

// LoadTemplate reads one. The comment that begins with its name has its signs.
func LoadTemplate(name string) (Template, error) {
	text, err := templateFiles.ReadFile("templates/" + name + ".yaml")
	if err != nil {
		return Template{}, fmt.Errorf("template %q is not known", name)
	}
	t := Template{Name: name}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if signs, ok := strings.CutPrefix(line, "# "+name+": "); ok {
			t.Signs = strings.Split(strings.TrimSpace(signs), ", ")
			continue
		}
		out.WriteString(line)
	}
	t.Text = []byte(out.String())
	return t, nil
}
