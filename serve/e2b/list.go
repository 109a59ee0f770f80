package e2b

import (
	"net/http"

	"cloister/serve"
	"cloister/serve/e2b/answer"
	"cloister/serve/listing"
)

func (d *Door) listAll(w http.ResponseWriter, r *http.Request, t caller) error {
	all, err := d.Host.ListAll(r.Context(), t.Name)
	if err != nil {
		return err
	}
	list, err := listing.Filter(all, r.URL.Query(), []serve.State{serve.Running})
	if err != nil {
		return err
	}
	d.replyList(w, list)
	return nil
}

func (d *Door) list(w http.ResponseWriter, r *http.Request, t caller) error {
	all, err := d.Host.ListAll(r.Context(), t.Name)
	if err != nil {
		return err
	}
	page, next, err := listing.Page(all, r.URL.Query())
	if err != nil {
		return err
	}
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	d.replyList(w, page)
	return nil
}

func (d *Door) replyList(w http.ResponseWriter, list []serve.Record) {
	out := make([]map[string]any, 0, len(list))
	for _, r := range list {
		out = append(out, d.shown(r))
	}
	answer.JSON(w, http.StatusOK, out)
}
