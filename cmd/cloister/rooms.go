package main

import (
	"cloister/cmd/cloister/approvals"
	"cloister/cmd/cloister/devcontainers"
	"cloister/cmd/cloister/overlays"
	"cloister/cmd/cloister/policies"
	"cloister/cmd/cloister/projects"
	"cloister/cmd/cloister/records"
	"cloister/cmd/cloister/reviews"
	"cloister/cmd/cloister/secrets"
	"cloister/cmd/cloister/server"
	"cloister/cmd/cloister/setup"

	"github.com/spf13/cobra"
)

// records are the commands about the record.
func (a *app) records() *records.Commands { return &records.Commands{App: &a.App} }

// reviews is the command about changes that wait for a person.
func (a *app) reviews() *reviews.Commands { return &reviews.Commands{App: &a.App} }

// secrets are the commands about secrets.
func (a *app) secrets() *secrets.Commands { return &secrets.Commands{App: &a.App} }

// approvals are the commands about what waits for a person.
func (a *app) approvals() *approvals.Commands { return &approvals.Commands{App: &a.App} }

// projects are the commands about projects.
func (a *app) projects() *projects.Commands { return &projects.Commands{App: &a.App} }

// policies are the commands about the policy.
func (a *app) policies() *policies.Commands {
	return &policies.Commands{App: &a.App, Servers: a.mcpNames}
}

// devcontainers are the commands about devcontainers.
func (a *app) devcontainers() *devcontainers.Commands {
	return &devcontainers.Commands{App: &a.App, Driver: a.driverNamed, System: a.system, Flags: a.orderFlags,
		Detach: a.detach, Exec: a.execWrapped, Lives: a.lives, Output: outputFile}
}

// setup is the command that gets an agent or a level ready.
func (a *app) setup() *setup.Commands { return &setup.Commands{App: &a.App, Secrets: a.secrets()} }

// server is the command that serves tenants.
func (a *app) server() *server.Commands { return &server.Commands{App: &a.App, Driver: driverOf} }

// overlays are the commands about overlay workspaces.
func (a *app) overlays() *overlays.Commands {
	return &overlays.Commands{App: &a.App, Hold: a.holdBox, Driver: a.driverNamed, Detach: a.detachWith,
		Watch: a.approvals().WatchTime}
}

// overlay is a command of theirs.
func overlay(of func(*overlays.Commands) *cobra.Command) func(*app) *cobra.Command {
	return func(a *app) *cobra.Command { return of(a.overlays()) }
}
