package guardian

import (
	"cloister/api"
	"cloister/config"
	"cloister/egress"
	"cloister/hostexec"
)

// granted is what a session's project has of the configuration besides policy.
type granted struct {
	quota egress.Quota
	host  *hostexec.Rules
}

// grants puts together what a session may do. Most projects have no word of their
// own.
func (l *Loaded) grants(files []api.ProjectFile) (*granted, error) {
	g := &granted{quota: quotaOf(l.config), host: l.host}
	if len(files) == 0 || l.config == nil {
		return g, nil
	}
	c, err := ofProject(l.config, files)
	if err != nil {
		return nil, err
	}
	g.quota = quotaOf(c)
	g.host, err = hostRules(c.Hostexec)
	return g, err
}

// quotaOf is what a configuration grants one session.
func quotaOf(c *config.Config) egress.Quota {
	if c == nil {
		return egress.Quota{}
	}
	p := c.Proxy
	return egress.Quota{
		RequestsPerMinute: p.RateLimit.RequestsPerMinute,
		Requests:          p.RateLimit.ConcurrentRequests,
		NamesPerMinute:    p.RateLimit.NamesPerMinute,
		RequestBytes:      int64(p.MaxRequestBytes),
		UploadSession:     int64(p.UploadLimit.Session),
		UploadHost:        int64(p.UploadLimit.Host),
	}
}

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
			Requests: u.Requests, RequestsLastMinute: u.LastMinute, ConcurrentRequests: u.UnderWay, BytesUp: u.Up, Names: u.Names, Limited: u.Limited,
		}
}
