package corpus

import "cloister/escape"

func fs18() escape.Case {
	return escape.Case{
		ID: "FS-18", Class: "editor config", Attack: "write tasks, settings, containers, direnv, package manager, hook runner and CI files that programs of the host obey",
		Source: "vscode #150239, devcontainers/cli #290", Layers: []string{"protect"},
		Tries: writes("FS-18", ".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", ".devcontainer/devcontainer.json", ".envrc", "sub/.envrc",
			".npmrc", ".yarnrc.yml", ".cargo/config.toml", ".husky/pre-commit", ".github/workflows/x.yml"),
	}
}
