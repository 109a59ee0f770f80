package corpus

import (
	"os"
	"slices"
	"strings"

	"cloister/escape"
)

func pr27() escape.Case {
	return escape.Case{
		ID: "PR-27", Class: "environment hygiene", Attack: "look for tokens, agents, displays and loader variables of the host in the environment",
		Source: "claude-code 2.1.145, Cursor CVE-2026-22708", Layers: []string{"built environment"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH", "BASH_ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
				out = append(out, on(name, func() error {
					if os.Getenv(name) == "" { //nolint:forbidigo // an attempt is a program of its own
						return escape.ErrNothing
					}
					return nil
				}))
			}
			return append(out, on("any other name", func() error {
				known := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "CLOISTER", "CLOISTER_NAME", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT", "CARGO_HTTP_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "GIT_CONFIG_COUNT", "PWD", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", escape.EnvInside}
				for _, pair := range os.Environ() { //nolint:forbidigo // an attempt is a program of its own
					name, value, _ := strings.Cut(pair, "=")
					if !slices.Contains(known, name) && !strings.HasPrefix(name, "GIT_CONFIG_") || strings.Contains(value, "CANARY-"+"SECRET") {
						return nil
					}
				}
				return escape.ErrNothing
			}))
		},
	}
}
