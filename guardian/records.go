package guardian

import (
	"net/http"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/folders"
	"cloister/guardian/records"
)

// getAudit reads the record backwards. The filter is asked here and not by the
// reader, so that what is looked at has a bound too.
func (g *guardian) getAudit(_ http.ResponseWriter, r *http.Request) (any, error) {
	w, err := records.QueryOf(r)
	if err != nil {
		return nil, err
	}
	out := api.Records{Records: []api.Record{}}
	looked := 0
	g.records.Flush()
	for e, err := range audit.Back(folders.Audit(g.o.Dirs), audit.Filter{Since: w.Since}) {
		if looked++; err != nil {
			out.Bad++
			continue
		}
		if e.Seq <= w.After || r.Context().Err() != nil {
			break
		}
		if w.Before > 0 && e.Seq >= w.Before {
			looked-- // what was seen is skipped, however much it is
			continue
		}
		if looked > records.MaxLooked || len(out.Records) == w.Limit {
			out.More, out.Next = true, e.Seq+1
			break
		}
		if w.Match(e) && w.Fits(e) {
			out.Records = append(out.Records, records.Shown(e))
		}
	}
	return out, nil
}
