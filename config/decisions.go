package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/internal/authority"
	"cloister/internal/source"
)

// MaxDecisions bounds one file of remembered answers.
const MaxDecisions = 1000

// Decision is one answer of a person that is remembered: a line of a file below
// decisions/, which a person may read, edit and remove.
type Decision struct {
	ID      string          `json:"id"`
	Answer  Answered        `json:"answer"`
	Kind    DecisionKind    `json:"kind"`
	Subject string          `json:"subject"` // what it is about: HOST:PORT or *.NAME:PORT
	At      time.Time       `json:"at"`
	By      string          `json:"by"`      // who answered, and where
	Why     string          `json:"why"`     // why it was asked
	Shown   string          `json:"shown"`   // what the person was shown
	Session string          `json:"session"` // who asked
	Place   source.Position `json:"-"`
}

// Answered is what a person said.
type Answered string

// DecisionKind is what was asked about.
type DecisionKind string

// The words that decisions are written in.
const (
	AnsweredAllow Answered = "allow"
	AnsweredDeny  Answered = "deny"

	DecisionNetwork  DecisionKind = "network"
	DecisionHostexec DecisionKind = "hostexec" // its subject is the digest of a command
	DecisionMCP      DecisionKind = "mcp"      // its subject is SERVER/TOOL
	DecisionSecret   DecisionKind = "secret"   // NAME METHOD HOST:PORT
	DecisionFile     DecisionKind = "file"     // read PATH or write PATH
)

func (Answered) words() []string { return []string{string(AnsweredAllow), string(AnsweredDeny)} }
func (DecisionKind) words() []string {
	return []string{string(DecisionNetwork), string(DecisionHostexec), string(DecisionMCP), string(DecisionSecret),
		string(DecisionFile)}
}

// Decisions is one file of them.
type Decisions struct {
	Version   int        `json:"version"`
	Project   string     `json:"project"` // the host path; empty in global.yaml
	Decisions []Decision `json:"decisions"`
	File      string     `json:"-"`
}

// DecisionsFile is where the answers for one project are below dir, or with "",
// those for every project.
func DecisionsFile(dir, project string) string {
	if project == "" {
		return filepath.Join(dir, "decisions", "global.yaml")
	}
	sum := sha256.Sum256([]byte(project))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, filepath.Base(project))
	name = strings.TrimLeft(name[:min(len(name), 60)], ".")
	return filepath.Join(dir, "decisions", "projects", name+"-"+hex.EncodeToString(sum[:4])+".yaml")
}

// LoadDecisions reads every file of remembered answers below dir. One that
// cannot be read is an error: a deny might stand in it.
func LoadDecisions(dir string) ([]Decisions, error) {
	names := []string{DecisionsFile(dir, "")}
	entries, err := os.ReadDir(filepath.Join(dir, "decisions", "projects"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".yaml") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, filepath.Join(dir, "decisions", "projects", e.Name()))
		}
	}
	var out []Decisions
	var errs []error
	for i, name := range names {
		text, err := readFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		d, err := ParseDecisions(name, text, i > 0)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

// ParseDecisions reads one file; ofProject says that it must name its project.
func ParseDecisions(name string, text []byte, ofProject bool) (Decisions, error) {
	d := Decisions{Version: 1, File: name}
	r := newReader(name)
	r.decode(text, &d)
	if len(r.problems) == 0 {
		r.decisions(&d, ofProject)
	}
	if err := r.err(); err != nil {
		return Decisions{}, err
	}
	return d, nil
}

func (r *reader) decisions(d *Decisions, ofProject bool) {
	switch {
	case d.Version != 1:
		r.problem(r.places["version"], "write version: 1", "version: this cloister reads version 1, not %d", d.Version)
	case ofProject && !filepath.IsAbs(d.Project):
		r.problem(r.places["project"], "write project: and the whole path of its folder", "project: %q is no absolute path",
			d.Project)
	case !ofProject && d.Project != "":
		r.problem(r.places["project"], "answers for one project stand in decisions/projects/",
			"project: these answers are for every project")
	case len(d.Decisions) > MaxDecisions:
		r.problem(source.Position{}, "turn some into rules of config.yaml: cloister approvals export", "more than %d answers",
			MaxDecisions)
	}
	seen := map[string]bool{}
	for i, one := range d.Decisions {
		key := at("decisions", i)
		switch {
		case one.Place.Line == 0:
			continue // said already
		case one.ID == "" || seen[one.ID]:
			r.problem(one.Place, "each answer has an id of its own", "%s: id %q", key, one.ID)
		case one.Answer == "":
			r.problem(one.Place, "write answer: allow or answer: deny", "%s: answer is missing", key)
		case one.Kind == "":
			r.problem(one.Place, "write kind: network", "%s: kind is missing", key)
		}
		seen[one.ID] = true
		if one.Kind == DecisionHostexec && !isDigest(one.Subject) {
			r.problem(one.Place, "it is made by an answer, not by hand", "%s: subject: %q is no digest of a command", key,
				one.Subject)
		}
		if one.Kind == DecisionNetwork {
			if _, _, err := SplitSubject(one.Subject); err != nil {
				r.problem(one.Place, "write HOST:PORT or *.NAME:PORT", "%s: subject: %v", key, err)
			}
		}
	}
}

// isDigest reports whether a text is a digest as Command.Grant writes it.
func isDigest(text string) bool {
	sum, ok := strings.CutPrefix(text, "sha256:")
	raw, err := hex.DecodeString(sum)
	return ok && err == nil && len(raw) == sha256.Size && strings.ToLower(sum) == sum
}

// SplitSubject reads the subject of a network answer: HOST:PORT, where HOST may
// be *.NAME.
func SplitSubject(text string) (host string, port uint16, err error) {
	rest, wildcard := strings.CutPrefix(text, "*.")
	a, err := authority.ParseHostPort(rest, 0)
	if err != nil {
		return "", 0, err
	}
	host = a.Host()
	if wildcard {
		if _, err := authority.ParsePattern("*." + host); err != nil {
			return "", 0, err
		}
		host = "*." + host
	}
	return host, a.Port(), nil
}

// Format writes the file as ParseDecisions reads it. Every text that came from
// elsewhere is quoted in ASCII.
func (d Decisions) Format() []byte {
	var b bytes.Buffer
	b.WriteString("# Answers that a person gave, remembered by cloister. Read, edit or remove them;\n" +
		"# `cloister guardian reload` puts a change in force.\nversion: 1\n")
	if d.Project != "" {
		fmt.Fprintf(&b, "project: %s\n", strconv.QuoteToASCII(d.Project))
	}
	b.WriteString("decisions:\n")
	for _, one := range d.Decisions {
		fmt.Fprintf(&b, "  - id: %s\n    answer: %s\n    kind: %s\n    subject: %s\n    at: %s\n",
			strconv.QuoteToASCII(one.ID), one.Answer, one.Kind, strconv.QuoteToASCII(one.Subject),
			one.At.UTC().Format(`"2006-01-02T15:04:05Z"`))
		for _, f := range []struct{ key, text string }{{"by", one.By}, {"why", one.Why}, {"shown", one.Shown},
			{"session", one.Session}} {
			if f.text != "" {
				fmt.Fprintf(&b, "    %s: %s\n", f.key, strconv.QuoteToASCII(f.text))
			}
		}
	}
	return b.Bytes()
}

// Without is the file less one answer; false where it has none of that ID.
func (d Decisions) Without(id string) (Decisions, bool) {
	i := slices.IndexFunc(d.Decisions, func(one Decision) bool { return one.ID == id })
	if i < 0 {
		return d, false
	}
	d.Decisions = slices.Delete(slices.Clone(d.Decisions), i, i+1)
	return d, true
}
