package config_test

import (
	"testing"

	"cloister/config"
)

func TestTemplates(t *testing.T) {
	names := config.TemplateNames()
	if len(names) < 4 {
		t.Fatalf("there are %v", names)
	}
	for _, name := range names {
		tmpl, err := config.LoadTemplate(name)
		if err != nil || len(tmpl.Signs) == 0 {
			t.Errorf("%s: %v, signs %v", name, err, tmpl.Signs)
			continue
		}
		if p, err := config.ParseProject(config.ProjectFile, tmpl.Text); err != nil || len(p.Proxy.Presets) == 0 {
			t.Errorf("%s does not load: %v", name, err)
		}
	}
	if _, err := config.LoadTemplate("cobol"); err == nil {
		t.Error("a template that there is none of loads")
	}
}
