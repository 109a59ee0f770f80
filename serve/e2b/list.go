package e2b

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/serve"
)

// maxPage bounds one page of a listing.
const maxPage = 100

func (d *Door) listAll(w http.ResponseWriter, r *http.Request, t caller) error {
	list, err := filtered(d.Host.List(t.Name), r.URL.Query(), []serve.State{serve.Running})
	if err != nil {
		return err
	}
	d.replyList(w, list)
	return nil
}

func (d *Door) list(w http.ResponseWriter, r *http.Request, t caller) error {
	q := r.URL.Query()
	list, err := filtered(d.Host.List(t.Name), q, []serve.State{serve.Running, serve.Paused})
	if err != nil {
		return err
	}
	up := q.Get("order") == "asc"
	if up {
		slices.Reverse(list)
	}
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return &serve.BadRequest{What: "limit: want a number from 1 to 100"}
		}
	}
	if text := q.Get("nextToken"); text != "" {
		from, id, err := readToken(text)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(x serve.Record) bool {
			if up {
				return x.Created.After(from) || x.Created.Equal(from) && x.ID < id
			}
			return x.Created.Before(from) || x.Created.Equal(from) && x.ID > id
		})
		if i < 0 {
			i = len(list)
		}
		list = list[i:]
	}
	if len(list) > limit {
		list = list[:limit]
		last := list[limit-1]
		token := last.Created.Format(time.RFC3339Nano) + "|" + last.ID
		w.Header().Set("X-Next-Token", base64.RawURLEncoding.EncodeToString([]byte(token)))
	}
	d.replyList(w, list)
	return nil
}

func (d *Door) replyList(w http.ResponseWriter, list []serve.Record) {
	out := make([]map[string]any, 0, len(list))
	for _, r := range list {
		out = append(out, d.shown(r))
	}
	reply(w, http.StatusOK, out)
}

func readToken(text string) (time.Time, string, error) {
	bad := &serve.BadRequest{What: "nextToken: not one of ours"}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return time.Time{}, "", bad
	}
	when, id, _ := strings.Cut(string(raw), "|")
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil {
		return time.Time{}, "", bad
	}
	return at, id, nil
}

// filtered keeps what the query asks for. The SDKs encode metadata as a query within the
// query, and join states by commas.
func filtered(list []serve.Record, q url.Values, states []serve.State) ([]serve.Record, error) {
	if all := strings.Join(q["state"], ","); all != "" {
		states = nil
		for s := range strings.SplitSeq(all, ",") {
			if s != string(serve.Running) && s != string(serve.Paused) {
				return nil, &serve.BadRequest{What: "state: want running or paused"}
			}
			states = append(states, serve.State(s))
		}
	}
	var after time.Time
	if text := q.Get("startedAfter"); text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, &serve.BadRequest{What: "startedAfter: want a time such as 2026-01-02T03:04:05Z"}
		}
		after = at
	}
	want, err := url.ParseQuery(q.Get("metadata"))
	if err != nil {
		return nil, &serve.BadRequest{What: "metadata: not a query"}
	}
	return slices.DeleteFunc(list, func(r serve.Record) bool {
		// The SDKs know times to the millisecond.
		early := r.Created.Truncate(time.Millisecond).Before(after)
		if early || !slices.Contains(states, r.State) || q.Get("template") != "" && q.Get("template") != r.Template {
			return true
		}
		for name, values := range want {
			plain, err := url.QueryUnescape(name)
			value, verr := url.QueryUnescape(values[0])
			if err != nil || verr != nil || r.Metadata[plain] != value && r.Metadata[name] != values[0] {
				return true
			}
		}
		return false
	}), nil
}
