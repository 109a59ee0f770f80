package demand

import "cloister/devcontainer/jsonc"

// entry is a rule with the sources in which its key has a meaning, and the kinds that
// its value may have.
type entry struct {
	sources [3]bool
	kinds   []jsonc.Kind
	judge   rule
}

// The sources of a key: the file alone, or features and labels too.
var (
	inFile    = [3]bool{File: true}
	inFeature = [3]bool{Feature: true}
	inAll     = [3]bool{true, true, true}
	inMerged  = [3]bool{File: true, Label: true}
)

var (
	text    = []jsonc.Kind{jsonc.String}
	texts   = []jsonc.Kind{jsonc.String, jsonc.Array}
	flag    = []jsonc.Kind{jsonc.Bool}
	list    = []jsonc.Kind{jsonc.Array}
	object  = []jsonc.Kind{jsonc.Object}
	command = []jsonc.Kind{jsonc.String, jsonc.Array, jsonc.Object, jsonc.Null}
)

// always is a rule with one outcome for a key.
func always(o Outcome, reason string) rule {
	return func(j *judge, m jsonc.Member) any {
		j.of(m, o, reason, "")
		if o == Refused {
			return nil
		}
		return m.Value.Any()
	}
}

// rules is the table of all keys.
func rules() map[string]entry {
	const (
		inside = "runs inside, after the enclosure stands"
		editor = "for editors; a cloister has none"
	)
	return map[string]entry{
		"name":    {inAll, text, always(Honoured, "a name for lists")},
		"$schema": {inAll, text, always(Kept, "for editors")},
		"image":   {inFile, text, always(Honoured, "the system inside; a person's --image takes its place")},

		"build":             {inFile, object, build},
		"dockerFile":        {inFile, text, dockerfile},
		"context":           {inFile, text, dockerfile},
		"dockerComposeFile": {inFile, texts, compose},
		"service":           {inFile, text, composePart},
		"runServices":       {inFile, list, composePart},

		"features": {inFile, object, featureList},
		"overrideFeatureInstallOrder": {inFile, list,
			always(Honoured, "among the features that wait for nothing, these first")},

		"containerEnv": {inAll, object, environment},
		"remoteEnv":    {inMerged, object, environment},
		"mounts":       {inAll, list, mounts},
		"runArgs":      {inFile, list, runArgs},
		"privileged":   {inAll, flag, privileged},
		"capAdd":       {inAll, list, capAdd},
		"securityOpt":  {inAll, list, securityOpt},
		"init":         {inAll, flag, always(Honoured, "every cloister has a first process that reaps")},
		"entrypoint": {[3]bool{Feature: true, Label: true}, text, always(Changed,
			"the command is the person's: an entrypoint is not run")},

		"workspaceFolder": {inFile, text, workspaceFolder},
		"workspaceMount":  {inFile, text, workspaceMount},
		"remoteUser":      {inMerged, text, user},
		"containerUser":   {inMerged, text, user},
		"updateRemoteUserUID": {inMerged, flag, always(Changed,
			"files always belong to this machine's user, whatever it says")},
		"overrideCommand": {inMerged, flag, always(Changed, "the command is the person's: the image's is never run")},
		"shutdownAction": {inMerged, text, always(Changed,
			"a cloister ends with its command, and all that belongs to it")},
		"userEnvProbe": {inMerged, text, always(Changed,
			"the environment inside is built, and no login shell is asked for it")},
		"waitFor":              {inMerged, text, always(Changed, "every command before the person's is waited for")},
		"initializeCommand":    {inFile, command, initialize},
		"onCreateCommand":      {inAll, command, lifecycle(inside + ", once for this devcontainer")},
		"updateContentCommand": {inAll, command, lifecycle(inside + ", once for this devcontainer")},
		"postCreateCommand":    {inAll, command, lifecycle(inside + ", once for this devcontainer")},
		"postStartCommand":     {inAll, command, lifecycle(inside + ", at each start")},
		"postAttachCommand":    {inAll, command, lifecycle(inside + ", before the command")},

		"forwardPorts":         {inMerged, list, forwardPorts},
		"appPort":              {inFile, []jsonc.Kind{jsonc.Number, jsonc.String, jsonc.Array}, appPort},
		"portsAttributes":      {inMerged, object, always(Kept, editor)},
		"otherPortsAttributes": {inMerged, object, always(Kept, editor)},
		"hostRequirements": {inMerged, object, always(Honoured,
			"processors are compared with this machine; too few are reported, and stop nothing")},
		"customizations": {inAll, object, customizations},
		"secrets":        {inMerged, object, always(Kept, "a secret comes from the vault: cloister secret set NAME")},
		"extensions":     {inFile, list, always(Kept, editor)},
		"settings":       {inFile, object, always(Kept, editor)},
		"devPort":        {inFile, nil, always(Kept, editor)},

		"id":               {[3]bool{Feature: true, Label: true}, text, always(Kept, "its name")},
		"version":          {inFeature, text, always(Kept, "its version")},
		"description":      {inFeature, text, always(Kept, "for people")},
		"documentationURL": {inFeature, text, always(Kept, "for people")},
		"licenseURL":       {inFeature, text, always(Kept, "for people")},
		"keywords":         {inFeature, list, always(Kept, "for people")},
		"options":          {inFeature, object, always(Honoured, "variables of its script")},
		"installsAfter":    {inFeature, list, always(Honoured, "the order of installation")},
		"dependsOn":        {inFeature, object, always(Honoured, "the order of installation")},
		"legacyIds":        {inFeature, list, always(Kept, "its older names")},
		"deprecated":       {inFeature, flag, always(Kept, "for people")},
	}
}
