package guardian

import (
	"cloister/api"
	"cloister/egress"
)

// limit puts other bounds in force.
func (l *live) limit(q egress.Quota) {
	l.mu.Lock()
	engine := l.engine
	l.mu.Unlock()
	if engine != nil {
		engine.SetQuota(q)
	}
}

// usage is what a session may do and has done; nil for one without network.
func (g *guardian) usage(id string) (*api.SessionLimits, *api.SessionUsage) {
	g.mu.Lock()
	l := g.live[id]
	g.mu.Unlock()
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	engine := l.engine
	l.mu.Unlock()
	if engine == nil {
		return nil, nil
	}
	q, u := engine.Quota(), engine.Usage()
	return &api.SessionLimits{
			RequestsPerMinute: q.RequestsPerMinute, ConcurrentRequests: q.Requests, NamesPerMinute: q.NamesPerMinute,
			MaxRequestBytes: q.RequestBytes, UploadSession: q.UploadSession, UploadHost: q.UploadHost,
		}, &api.SessionUsage{
			Requests: u.Requests, RequestsLastMinute: u.LastMinute, ConcurrentRequests: u.UnderWay, BytesUp: u.Up,
			Names: u.Names, Limited: u.Limited,
		}
}
