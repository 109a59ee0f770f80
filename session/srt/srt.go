package srt

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cloister/config"
	"cloister/config/imports"
	"cloister/session"
)

// Policy are the destinations that settings allow and deny, and Cedar text beside them that
// forbids all others, whatever rules allow.
func Policy(s imports.SRT) (allow, deny []string, cedar string) {
	allow, denied := s.Destinations()
	var never []string // *, or *:PORT: no rule can say it
	for _, name := range denied {
		if every, port, _ := strings.Cut(name, ":"); every == "*" {
			never = append(never, port)
		} else {
			deny = append(deny, name)
		}
	}
	return allow, deny, onlyThese(allow) + neverThese(never)
}

// onlyThese forbids every destination but some, whatever rules allow besides.
func onlyThese(allowed []string) string {
	const forbid = `forbid (principal, action == Action::"NetworkConnect", resource)`
	var terms []string
	for _, name := range allowed {
		host, port, _ := strings.Cut(name, ":")
		term := "resource == Host::" + strconv.Quote(strings.ToLower(host))
		if strings.HasPrefix(host, "*.") {
			term = "resource in Host::" + strconv.Quote(strings.ToLower(host))
		}
		if port != "" {
			term = "(" + term + " && context.port == " + port + ")"
		}
		terms = append(terms, term)
	}
	if len(terms) == 0 {
		return forbid + ";\n"
	}
	return forbid + "\nunless { " + strings.Join(terms, " || ") + " };\n"
}

// neverThese forbids ports of every destination, whatever is allowed; an empty one is for
// all ports.
func neverThese(ports []string) string {
	var b strings.Builder
	for _, port := range ports {
		b.WriteString(`forbid (principal, action == Action::"NetworkConnect", resource)`)
		if port != "" {
			b.WriteString(" when { context.port == " + port + " }")
		}
		b.WriteString(";\n")
	}
	return b.String()
}

// Environment names the variables that are passed on: all but what a cloister makes itself,
// what speaks for programs of the host, and what the settings or the vault keep back.
func Environment(s imports.SRT, env map[string]string, secrets []config.Secret) (names []string) {
	back := append([]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "SSH_AUTH_SOCK",
		"DBUS_SESSION_BUS_ADDRESS"},
		session.AuthorityVariables()...)
	for _, v := range s.Credentials.EnvVars {
		back = append(back, v.Name)
	}
	for _, secret := range secrets {
		back = append(back, secret.Variables()...)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if slices.Contains(back, name) || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "CLOISTER") ||
			strings.HasPrefix(name, "DOCKER_") {
			continue
		}
		names = append(names, name)
	}
	return names
}
