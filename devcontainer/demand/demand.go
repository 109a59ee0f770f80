// Package demand judges what a devcontainer asks for: each key is honoured, changed,
// refused or kept unread, with the reason and the key's line.
//
// The promise: what is not on a list of what a cloister can give is not given. Powers
// over the host (mounts of its folders, capabilities, its network, its engine, commands
// on it) are refused whatever else a file says, and a value is judged in the spelling
// in which it is used: variables are replaced first. The room does nothing itself, and
// reads neither disk nor environment.
// Most readers want [Judge].
package demand

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/variables"
	"cloister/internal/nearest"
)

// Outcome is what becomes of a key.
type Outcome string

// The outcomes. Kept is for keys that are another tool's, or of no meaning that the
// specification knows: they change nothing.
const (
	Honoured Outcome = "honoured"
	Changed  Outcome = "changed"
	Refused  Outcome = "refused"
	Kept     Outcome = "kept"
)

// Finding is the judgement of one key, or of one item of it.
type Finding struct {
	Key     string  `json:"key"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Column  int     `json:"column"`
	Value   string  `json:"value"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
	Hint    string  `json:"hint,omitempty"`
}

// Source is what a text is: a devcontainer.json, a feature, or an image's label.
type Source uint8

// The sources.
const (
	File Source = iota
	Feature
	Label
)

// Input is a text to be judged, and what its words are held against.
type Input struct {
	Source Source
	Name   string // of the file, for findings
	Config jsonc.Value
	Vars   variables.Set
	// Home is the person's home, Project the project's top.
	Home, Project string
	// Reserved are variables of the inside that are the cloister's own.
	Reserved []string
	// Given reports whether a person gave a host variable by name.
	Given func(name string) bool
	// Registered judges a feature of a registry by its source and what it is pinned to;
	// nil refuses all.
	Registered func(id string) (o Outcome, reason, hint string)
}

// Result is the judgement of a text.
type Result struct {
	Findings []Finding
	// Config is what is left: without what was refused, variables replaced.
	Config map[string]any
}

// judge is a judgement under way.
type judge struct {
	Input
	out Result
}

// rule judges one key. It gives what is kept of its value; nil is nothing.
type rule func(j *judge, m jsonc.Member) any

// Judge judges every key of a text. An error is a value of a shape that the
// specification does not know, with its line.
func Judge(in Input) (Result, error) {
	j := &judge{Input: in}
	j.out.Config = map[string]any{}
	if in.Config.Kind != jsonc.Object {
		return j.out, &jsonc.Error{File: in.Name, Line: in.Config.Line, Column: in.Config.Column, Msg: "it must be an object"}
	}
	known := rules()
	for _, m := range in.Config.Members {
		v, err := j.replaced(m)
		if err != nil {
			return j.out, err
		}
		r, ok := known[m.Name]
		if !ok || !r.sources[in.Source] {
			j.unknown(v, known)
			continue
		}
		if err := j.shape(m, r.kinds); err != nil {
			return j.out, err
		}
		if kept := r.judge(j, v); kept != nil {
			j.out.Config[m.Name] = kept
		}
	}
	return j.out, nil
}

// unknown keeps a key that no rule knows.
func (j *judge) unknown(m jsonc.Member, known map[string]entry) {
	j.out.Config[m.Name] = m.Value.Any()
	hint := ""
	var names []string
	for name, r := range known {
		if r.sources[j.Source] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if near := nearest.Word(m.Name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	j.find(m.Name, m.Line, m.Column, m.Value.Brief(), Kept, "unknown here; it changes nothing", hint)
}

// shape refuses a value of a kind that a key does not have.
func (j *judge) shape(m jsonc.Member, kinds []jsonc.Kind) error {
	if len(kinds) == 0 || slices.Contains(kinds, m.Value.Kind) {
		return nil
	}
	var words []string
	for _, k := range kinds {
		words = append(words, k.String())
	}
	return &jsonc.Error{File: j.Name, Line: m.Value.Line, Column: m.Value.Column,
		Msg: fmt.Sprintf("%s is %s, and must be %s", m.Name, m.Value.Kind, strings.Join(words, " or "))}
}

// replaced is a member with the variables of its strings replaced, and reports the host
// variables that are not given.
func (j *judge) replaced(m jsonc.Member) (jsonc.Member, error) {
	for _, name := range variables.Local(m.Value.Any()) {
		if j.Given != nil && !j.Given(name) {
			j.find(m.Name, m.Line, m.Column, "${localEnv:"+name+"}", Changed,
				byName+"; it is empty, or its default",
				"give it: -e "+name)
		}
	}
	v, err := j.replaceValue(m.Value)
	if err != nil {
		return m, &jsonc.Error{File: j.Name, Line: m.Line, Column: m.Column, Msg: m.Name + ": " + err.Error()}
	}
	m.Value = v
	return m, nil
}

func (j *judge) replaceValue(v jsonc.Value) (jsonc.Value, error) {
	var err error
	switch v.Kind {
	case jsonc.String:
		v.Text, err = j.Vars.Text(v.Text)
	case jsonc.Array:
		v.Items = slices.Clone(v.Items)
		for i := range v.Items {
			if v.Items[i], err = j.replaceValue(v.Items[i]); err != nil {
				return v, err
			}
		}
	case jsonc.Object:
		v.Members = slices.Clone(v.Members)
		for i := range v.Members {
			if v.Members[i].Value, err = j.replaceValue(v.Members[i].Value); err != nil {
				return v, err
			}
		}
	case jsonc.Null, jsonc.Bool, jsonc.Number:
	}
	return v, err
}

func (j *judge) find(key string, line, column int, value string, o Outcome, reason, hint string) {
	j.out.Findings = append(j.out.Findings, Finding{
		Key: key, File: j.Name, Line: line, Column: column, Value: value, Outcome: o, Reason: reason, Hint: hint,
	})
}

// of is a finding about a key.
func (j *judge) of(m jsonc.Member, o Outcome, reason, hint string) {
	j.find(m.Name, m.Line, m.Column, m.Value.Brief(), o, reason, hint)
}

// item is a finding about the item of a list, or a member of an object.
func (j *judge) item(key string, v jsonc.Value, o Outcome, reason, hint string) {
	j.find(key, v.Line, v.Column, v.Brief(), o, reason, hint)
}

// items are those of a list, or the value itself.
func items(v jsonc.Value) []jsonc.Value {
	if v.Kind == jsonc.Array {
		return v.Items
	}
	return []jsonc.Value{v}
}

func indexed(name string, n int) string { return fmt.Sprintf("%s[%d]", name, n) }

// below reports whether a path is a folder or something in it.
func below(p, dir string) bool {
	p, dir = path.Clean(p), path.Clean(dir)
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
