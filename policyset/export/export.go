// Package export writes remembered answers as rules for config.yaml.
//
// The promise: the rules mean what the answers mean, but for one project or session they
// then hold for all: a comment says so.
//
// It writes no file.
//
// Most readers want [Rules].
package export

import (
	"fmt"
	"strings"

	"cloister/api"
)

// Rules are the lines of the rules; others is how many answers are about no destination.
func Rules(list []api.Decision) (lines []string, others int) {
	for _, d := range list {
		if !about(d) {
			others++
		}
	}
	for _, answer := range []string{"allow", "deny"} {
		first := true
		for _, d := range list {
			if d.Answer != answer || !about(d) {
				continue
			}
			if len(lines) == 0 {
				lines = append(lines, "proxy:")
			}
			if first {
				lines = append(lines, "  "+answer+":")
				first = false
			}
			i := strings.LastIndexByte(d.Subject, ':')
			host, port := strings.Trim(d.Subject[:i], "[]"), d.Subject[i+1:]
			note := "for every project"
			switch d.Scope {
			case "project":
				note = "was for " + d.Project + " only"
			case "session":
				note = "was for the session " + d.Session + " only"
			}
			lines = append(lines, fmt.Sprintf("    - {domain: %q, ports: [%s]}  # approval %s, %s", host, port, d.ID, note))
		}
	}
	return lines, others
}

// about reports whether an answer is about a destination, HOST:PORT.
func about(d api.Decision) bool { return d.Kind == "network" && strings.Contains(d.Subject, ":") }
