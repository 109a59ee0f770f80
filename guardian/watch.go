package guardian

import (
	"encoding/json"
	"net/http"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/records"
)

// comeBack is how soon a page is back that was loaded anew.
const comeBack = 3 * time.Second

// audited publishes what was recorded, while someone reads that.
func (g *guardian) audited(e audit.Event) {
	if g.bus.Audited() {
		g.bus.Publish(api.EventAudit, records.Shown(e))
	}
}

// getEvents streams what happens as server-sent events. An open stream is
// someone who watches: asks wait for an answer as long as there is one. With
// ?session=NAME it is someone who sees the questions of that one alone, such as a
// terminal that is attached to it.
func (g *guardian) getEvents(w http.ResponseWriter, r *http.Request) (any, error) {
	reader, err := g.bus.Join(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("audit") != "")
	if err != nil {
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeBadRequest,
			Message: "watch events: " + err.Error()}
	}
	defer reader.Leave()
	watched := "" // every session
	if name := r.URL.Query().Get("session"); name != "" {
		info, err := g.sessions.Find(name)
		if err != nil {
			return nil, err
		}
		watched = info.ID
	}
	hello, err := json.Marshal(api.Hello{PID: g.status().PID, Version: g.o.Version})
	if err != nil {
		return nil, err
	}
	// Seen from where the reader joined: what is asked next is in the stream.
	leave := g.queue.Watch(watched)
	if callerOf(r) == Window {
		// A page that is loaded anew, or hands its stream to another tab, is back
		// in a moment: what is asked meanwhile waits.
		defer time.AfterFunc(comeBack, leave)
	} else {
		defer leave()
	}
	defer g.touch()
	reader.Serve(r.Context(), w, hello)
	return hijacked{}, nil
}
