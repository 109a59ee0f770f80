package suggest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloister/policy"
)

// YAML is a rule as an element of its list in config.yaml.
func YAML(r policy.Rule) string {
	parts := []string{"domain: " + word(r.Domain)}
	if r.CIDR != "" {
		parts = []string{"cidr: " + word(r.CIDR)}
	}
	if len(r.Ports) > 0 {
		parts = append(parts, fmt.Sprintf("ports: %s", strings.ReplaceAll(fmt.Sprint(r.Ports), " ", ", ")))
	}
	for _, list := range []struct {
		key   string
		words []string
	}{{"methods", r.Methods}, {"paths", r.Paths}} {
		if len(list.words) == 0 {
			continue
		}
		quoted := make([]string, len(list.words))
		for i, w := range list.words {
			quoted[i] = word(w)
		}
		parts = append(parts, list.key+": ["+strings.Join(quoted, ", ")+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// word quotes what YAML could read as something else than text.
func word(s string) string {
	plain := s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") == "" &&
		strings.ContainsAny(s[:1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/")
	if plain && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"},
		strings.ToLower(s)) {
		return s
	}
	return strconv.Quote(s)
}
