package explain

import (
	"cmp"
	"path"
	"strings"

	"cloister/api"
	"cloister/policy"
	"cloister/policy/fileverdict"
	"cloister/policyset/learned"
)

// file is what would become of a file that is opened, or of a program that is executed, in a
// native session. A statement that names it and that nothing keeps is said.
func file(s *policy.Snapshot, project string, f *api.ExplainFile) (api.Explanation, error) {
	use, ok := fileverdict.Parse(cmp.Or(f.Use, fileverdict.Read.String()))
	if !ok {
		return api.Explanation{}, api.BadRequest("explain: %q: the uses of a file are %s", f.Use,
			strings.Join(fileverdict.Words(), ", "))
	}
	if !path.IsAbs(f.Path) {
		return api.Explanation{}, api.BadRequest("explain: %q is no absolute path", f.Path)
	}
	list := fileverdict.In(s.Statements(), project)
	v := fileverdict.Of(list, f.Path, use)
	x := api.Explanation{
		Subject: use.String() + " " + path.Clean(f.Path), Effect: v.Effect.String(), Rule: v.Rule, Source: v.Origin.Source,
		File: v.Origin.File, Line: v.Origin.Line, Column: v.Origin.Column, Reason: v.Reason,
		Mode: s.Mode().String(), Digest: s.Digest(), WouldDeny: v.Effect == policy.Deny && s.Mode() != policy.Enforce,
	}
	if v.Effect == policy.Deny && v.Rule == "" {
		action := map[fileverdict.Use]string{fileverdict.Read: "FileOpenReadOnly", fileverdict.Write: "FileOpen",
			fileverdict.Execute: "ProcessExec"}[use]
		x.Hints = []string{`a file of config's folder policy: permit (principal, action == Action::"` + action +
			`", resource == File::` + learned.Word(path.Clean(f.Path)) + `);`}
	}
	if fileverdict.ByPattern(list, v.Rule) {
		x.Notices = append(x.Notices, "a pattern names it: by the view where it is there when a session starts; "+
			"weakly, by its name, where it appears later")
	}
	for _, st := range list {
		if why := fileverdict.Unkept(st, use); why != "" {
			x.Notices = append(x.Notices, st.Origin.String()+": "+strings.Join(st.Actions, ", ")+" is not judged here: "+why)
		}
	}
	return x, nil
}
