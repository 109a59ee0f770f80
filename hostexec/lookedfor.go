package hostexec

import (
	"path/filepath"
	"slices"
	"strings"
)

// callsGit reports whether a program runs git to learn which repository it is for. That
// git would obey what the cloister writes: it finds none, and the repository has to
// be named (gh -R OWNER/NAME).
func callsGit(program string) bool {
	return slices.Contains([]string{"gh", "hub", "glab", "tea"}, filepath.Base(program))
}

// looksFor are files of the project that a known program obeys without an argument
// that names them. The list is no wall: what else such a program reads is its own.
func looksFor(program string) []string {
	switch strings.TrimRight(filepath.Base(program), "0123456789.") {
	case "make", "gmake":
		return []string{"GNUmakefile", "makefile", "Makefile"}
	case "npm", "npx", "yarn", "pnpm", "corepack", "bun":
		return []string{"package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", "package-lock.json", "npm-shrinkwrap.json",
			"yarn.lock", "pnpm-lock.yaml"}
	case "cargo":
		return []string{"Cargo.toml", "Cargo.lock", "build.rs", ".cargo/config.toml", ".cargo/config"}
	case "go":
		return []string{"go.mod", "go.work"}
	case "docker", "docker-compose", "podman":
		return []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "Dockerfile"}
	case "just":
		return []string{"justfile", "Justfile"}
	case "rake", "bundle":
		return []string{"Rakefile", "Gemfile", "Gemfile.lock"}
	case "composer":
		return []string{"composer.json", "composer.lock"}
	case "pytest", "tox", "pip", "poetry", "uv":
		return []string{"pyproject.toml", "setup.py", "setup.cfg", "conftest.py", "tox.ini"}
	case "mvn", "gradle":
		return []string{"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}
	}
	return nil
}
