package guardian_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cloister/guardian"
)

// TestOpenAPI holds the document to the table: every route and who may call it,
// every reference answered, every operation told apart.
func TestOpenAPI(t *testing.T) {
	text, err := json.Marshal(guardian.OpenAPI("v0"))
	if err != nil {
		t.Fatal(err)
	}
	type operation struct {
		ID     string `json:"operationId"`
		Caller string `json:"x-cloister-caller"`
	}
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]struct {
			Get, Post *operation
		} `json:"paths"`
		Components struct {
			Schemas   map[string]json.RawMessage `json:"schemas"`
			Responses map[string]json.RawMessage `json:"responses"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || len(doc.Paths) != len(guardian.Routes()) {
		t.Errorf("version %q, %d paths, %d routes", doc.OpenAPI, len(doc.Paths), len(guardian.Routes()))
	}
	var ids []string
	for _, route := range guardian.Routes() {
		path := doc.Paths[route.Path]
		for _, one := range []struct {
			op  *operation
			who guardian.Caller
		}{{path.Get, route.Read}, {path.Post, route.Write}} {
			if (one.op != nil) != (one.who != guardian.None) {
				t.Errorf("%s: described: %t, for %q", route.Path, one.op != nil, one.who)
			}
			if one.op == nil {
				continue
			}
			if one.op.Caller != one.who.String() || slices.Contains(ids, one.op.ID) {
				t.Errorf("%s: caller %q, operation %q", route.Path, one.op.Caller, one.op.ID)
			}
			ids = append(ids, one.op.ID)
		}
	}
	for rest := string(text); ; {
		_, after, ok := strings.Cut(rest, `"$ref":"#/components/`)
		if !ok {
			break
		}
		var ref string
		ref, rest, _ = strings.Cut(after, `"`)
		kind, name, _ := strings.Cut(ref, "/")
		from := doc.Components.Schemas
		if kind == "responses" {
			from = doc.Components.Responses
		}
		if _, ok := from[name]; !ok {
			t.Errorf("#/components/%s is not there", ref)
		}
	}
	for _, name := range []string{"SessionInfo", "Status", "Approval", "Error"} {
		if !strings.Contains(string(doc.Components.Schemas[name]), `"properties"`) {
			t.Errorf("no schema of %s", name)
		}
	}
}
