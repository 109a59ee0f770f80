package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
)

// cedarPolicy is one statement in Cedar's JSON.
type cedarPolicy struct {
	Effect    string `json:"effect"`
	Principal struct {
		Op string `json:"op"`
	} `json:"principal"`
	Action     cedarScope        `json:"action"`
	Resource   cedarScope        `json:"resource"`
	Conditions []json.RawMessage `json:"conditions"`
}

type cedarScope struct {
	Op       string        `json:"op"`
	Entity   cedarEntity   `json:"entity"`
	Entities []cedarEntity `json:"entities"`
}

type cedarEntity struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

func (s cedarScope) all() []cedarEntity {
	if s.Op == "==" || s.Op == "in" && len(s.Entities) == 0 && s.Entity.ID != "" {
		return []cedarEntity{s.Entity}
	}
	return s.Entities
}

// leash takes statements of Leash about connections. What it says of files and programs
// its kernel layer enforces, and here the view.
func (d *draft) leash(name string, text []byte) error {
	list, err := cedar.NewPolicyListFromBytes(name, text)
	if err != nil {
		return fmt.Errorf("no valid Cedar: %s", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	if len(list) == 0 {
		return errNoRules
	}
	d.unlisted, d.noPresets = "deny", true
	for i, p := range list {
		var one cedarPolicy
		text, err := p.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(text, &one)
		}
		if err != nil {
			return err
		}
		one.inward()
		d.leashStatement(fmt.Sprintf("statement %d", i+1), one)
	}
	return nil
}

// inward takes the form that Leash's own policies have, when { resource in [ Host::"x" ] }
// and nothing else, as the scope that it is.
func (p *cedarPolicy) inward() {
	type value struct {
		Entity cedarEntity `json:"__entity"`
	}
	type expression struct {
		Var   string       `json:"Var"`
		Value *value       `json:"Value"`
		Set   []expression `json:"Set"`
	}
	var only struct {
		Kind string `json:"kind"`
		Body struct {
			In, Equal *struct{ Left, Right expression }
		} `json:"body"`
	}
	if len(p.Conditions) != 1 || p.Resource.Op != "All" {
		return
	}
	text := bytes.Replace(p.Conditions[0], []byte(`"==":`), []byte(`"equal":`), 1)
	if json.Unmarshal(text, &only) != nil || only.Kind != "when" || (only.Body.In == nil) == (only.Body.Equal == nil) {
		return
	}
	on := cmp.Or(only.Body.In, only.Body.Equal)
	list := append(slices.Clone(on.Right.Set), on.Right)
	if on.Right.Value == nil {
		list = on.Right.Set
	}
	scope := cedarScope{Op: "in"}
	for _, e := range list {
		if e.Value == nil {
			return
		}
		scope.Entities = append(scope.Entities, e.Value.Entity)
	}
	if on.Left.Var == "resource" && len(scope.Entities) > 0 {
		p.Resource, p.Conditions = scope, nil
	}
}

func (d *draft) leashStatement(at string, p cedarPolicy) {
	var actions []string
	for _, a := range p.Action.all() {
		actions = append(actions, a.ID)
	}
	at += " (" + p.Effect + " " + strings.Join(actions, ", ") + ")"
	switch {
	case !slices.Contains(actions, "NetworkConnect"):
		why := "a cloister sees its project, a toolchain and a home of its own: filesystem in config.yaml says more"
		if slices.Contains(actions, "McpCall") {
			why = "mcp.servers in config.yaml names a server by its URL, with its tools"
		} else if slices.Contains(actions, "HttpRewrite") {
			why = "a header with a credential is a secret's: cloister secret set NAME"
		}
		d.tell(at, None, "%s", why)
	case len(p.Conditions) > 0 && p.Effect == "permit", p.Principal.Op != "All" && p.Effect == "permit",
		len(p.Resource.all()) == 0:
		d.tell(at, None, "write it by hand, with its conditions: policy/NAME.cedar in the configuration's folder")
	default:
		for _, r := range p.Resource.all() {
			name := r.ID
			if strings.HasSuffix(r.Type, "DnsZone") {
				name = "*." + name
			}
			if name == "*" && p.Effect == "permit" {
				d.tell(at+" "+name, Changed, "unlisted destinations are denied; to be asked, unlisted_domain_behavior: ask")
				continue
			}
			d.srtDestination(at, name, p.Effect == "permit")
		}
	}
}
