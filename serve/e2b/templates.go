package e2b

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"cloister/serve"
	"cloister/serve/e2b/answer"
	"cloister/serve/templates"
)

// templatesOf are a tenant's.
func (d *Door) templatesOf(tenant string) *templates.Store {
	return templates.Open(d.Tenants.Home(tenant))
}

// templateError is an error of templates as the SDKs read it.
func templateError(err error) error {
	switch {
	case errors.Is(err, templates.ErrNone):
		return answer.Error(http.StatusNotFound, err.Error())
	case errors.Is(err, templates.ErrOwn):
		return answer.Error(http.StatusForbidden, err.Error())
	case errors.Is(err, templates.ErrBuild), errors.Is(err, templates.ErrTaken):
		return answer.Error(http.StatusConflict, err.Error())
	case errors.Is(err, templates.ErrFull):
		return &serve.Over{What: err.Error()}
	}
	return err
}

func (d *Door) shownTemplate(t templates.Template) map[string]any {
	return map[string]any{
		"templateID": t.ID, "buildID": t.Build, "aliases": []string{t.Name}, "names": []string{t.Name}, "public": false,
		"tags":        []string{},
		"buildStatus": buildStatus(t), "buildCount": 1, "spawnCount": 0, "lastSpawnedAt": nil, "createdBy": nil,
		"cpuCount": shownCPUs, "memoryMB": shownMB, "diskSizeMB": shownMB, "envdVersion": EnvdVersion,
		"createdAt": t.Created.Format(time.RFC3339Nano), "updatedAt": t.Updated.Format(time.RFC3339Nano),
	}
}

func buildStatus(t templates.Template) string {
	if t.Made.Image == "" {
		return "waiting"
	}
	return "ready"
}

func (d *Door) listTemplates(w http.ResponseWriter, _ *http.Request, t caller) error {
	list, err := d.templatesOf(t.Name).List()
	if err != nil {
		return err
	}
	out := []map[string]any{}
	for _, one := range list {
		out = append(out, d.shownTemplate(one))
	}
	answer.JSON(w, http.StatusOK, out)
	return nil
}

func (d *Door) showTemplate(w http.ResponseWriter, r *http.Request, t caller) error {
	one, err := d.templatesOf(t.Name).Find(r.PathValue("id"))
	if err != nil {
		return templateError(err)
	}
	out := d.shownTemplate(one)
	out["builds"] = []map[string]any{{
		"buildID": one.Build, "status": buildStatus(one), "cpuCount": shownCPUs, "memoryMB": shownMB,
		"createdAt": out["updatedAt"], "updatedAt": out["updatedAt"],
	}}
	answer.JSON(w, http.StatusOK, out)
	return nil
}

// buildWire is a request for a template, and for its build. What stands in it for a build by
// steps is refused by its name.
type buildWire struct {
	Name             string     `json:"name"`
	Alias            string     `json:"alias"`
	Tags             []string   `json:"tags"`
	FromImage        string     `json:"fromImage"`
	FromTemplate     string     `json:"fromTemplate"`
	FromRegistry     *struct{}  `json:"fromImageRegistry"`
	Steps            []struct{} `json:"steps"`
	StartCommand     string     `json:"startCmd"`
	ReadyCommand     string     `json:"readyCmd"`
	Dockerfile       string     `json:"dockerfile"`
	DockerfileOfPath string     `json:"dockerfilePath"`
}

func (q buildWire) check() error {
	for _, part := range []struct {
		name  string
		given bool
	}{
		{"tags", slices.ContainsFunc(q.Tags, func(t string) bool { return t != "default" })},
		{"fromTemplate", q.FromTemplate != ""},
		{"fromImageRegistry", q.FromRegistry != nil}, {"steps", len(q.Steps) > 0}, {"startCmd", q.StartCommand != ""},
		{"readyCmd", q.ReadyCommand != ""}, {"dockerfile", q.Dockerfile+q.DockerfileOfPath != ""},
	} {
		if part.given {
			return &serve.BadRequest{What: part.name + ": cloister serve builds no images: make it elsewhere, and name it by " +
				"its digest in fromImage"}
		}
	}
	return nil
}

// makeTemplate begins a template, which the build that follows gives its image.
func (d *Door) makeTemplate(w http.ResponseWriter, r *http.Request, t caller) error {
	var q buildWire
	if err := answer.Read(w, r, &q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	name := strings.TrimSuffix(q.Name+q.Alias, ":default")
	if err := templates.CheckName(name); err != nil {
		return &serve.BadRequest{What: err.Error()}
	}
	one, err := d.templatesOf(t.Name).Put(name, templates.Made{}, false, d.recordTemplate(r, t, "make"))
	if err != nil {
		return templateError(err)
	}
	answer.JSON(w, http.StatusAccepted, d.shownTemplate(one))
	return nil
}

// recordTemplate has what is done to a template recorded in the tenant's record.
func (d *Door) recordTemplate(r *http.Request, t caller, action string) func(templates.Template) error {
	return func(one templates.Template) error {
		return d.Host.Record(context.WithoutCancel(r.Context()), t.Name, serve.Act{
			Kind: serve.ActTemplate, Action: action, Resource: strings.TrimSpace(one.Name + " " + one.Made.Image),
		})
	}
}

// build gives a template its image, which the tenant's store has by that digest. None is
// fetched for a request.
func (d *Door) build(w http.ResponseWriter, r *http.Request, t caller) error {
	var q buildWire
	if err := answer.Read(w, r, &q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	image, err := d.image(t.Name, q.FromImage)
	if err != nil {
		return err
	}
	err = d.templatesOf(t.Name).Finish(r.PathValue("id"), r.PathValue("build"), image, d.recordTemplate(r, t, "build"))
	if err == nil {
		w.WriteHeader(http.StatusAccepted)
	}
	return templateError(err)
}

// image is the ID of the image that a request names by a digest.
func (d *Door) image(tenant, name string) (string, error) {
	_, digest, found := strings.Cut(name, "@")
	if !found {
		digest = name
	}
	hex, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", &serve.BadRequest{What: "fromImage: want an image by its digest, NAME@sha256:… or sha256:…"}
	}
	id, err := d.Images(tenant, digest)
	if err == nil && id == "" {
		err = answer.Error(http.StatusNotFound,
			"fromImage: the tenant has no image of that digest: cloister serve template add "+
				"fetches one")
	}
	return id, err
}

func (d *Door) buildStatus(w http.ResponseWriter, r *http.Request, t caller) error {
	one, err := d.templatesOf(t.Name).Find(r.PathValue("id"))
	if err == nil && one.Build != r.PathValue("build") {
		err = templates.ErrNone
	}
	if err != nil {
		return templateError(err)
	}
	answer.JSON(w, http.StatusOK, map[string]any{
		"templateID": one.ID, "buildID": one.Build, "status": buildStatus(one), "logs": []string{}, "logEntries": []string{},
	})
	return nil
}

func (d *Door) alias(w http.ResponseWriter, r *http.Request, t caller) error {
	one, err := d.templatesOf(t.Name).Find(r.PathValue("alias"))
	if err != nil {
		return templateError(err)
	}
	answer.JSON(w, http.StatusOK, map[string]any{"templateID": one.ID, "public": false})
	return nil
}

// removeTemplate removes a snapshot, which E2B takes for a template, or a template.
func (d *Door) removeTemplate(w http.ResponseWriter, r *http.Request, t caller) error {
	ok, err := d.Host.RemoveSnapshot(r.Context(), t.Tenant, r.PathValue("id"))
	if err == nil && !ok {
		err = templateError(d.templatesOf(t.Name).Remove(r.PathValue("id"), false, d.recordTemplate(r, t, "remove")))
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}
