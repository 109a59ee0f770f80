// Package listing finds, in a tenant's sandboxes, those that a request's query asks for.
//
// It is the query of E2B's API: states, metadata, a template, a time, an order and pages.
// The promise: a page goes on after the last sandbox of the page before, whatever was made
// or ended meanwhile.
//
// Most readers want [Page].
package listing

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/serve"
)

// maxPage bounds one page of a listing.
const maxPage = 100

// Page gives the page that a query asks for, of a list that is newest first, with the word
// by which the next one is asked for; empty for none.
func Page(list []serve.Record, q url.Values) (page []serve.Record, next string, err error) {
	list, err = Filter(list, q, []serve.State{serve.Running, serve.Paused})
	if err != nil {
		return nil, "", err
	}
	up := q.Get("order") == "asc"
	if up {
		slices.Reverse(list)
	}
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return nil, "", &serve.BadRequest{What: "limit: want a number from 1 to 100"}
		}
	}
	if text := q.Get("nextToken"); text != "" {
		from, id, err := readToken(text)
		if err != nil {
			return nil, "", err
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
		next = base64.RawURLEncoding.EncodeToString([]byte(last.Created.Format(time.RFC3339Nano) + "|" + last.ID))
	}
	return list, next, nil
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

// Filter keeps what the query asks for. The SDKs encode metadata as a query within the
// query, and join states by commas.
func Filter(list []serve.Record, q url.Values, states []serve.State) ([]serve.Record, error) {
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
