package policyset

import (
	"cloister/api"
	"cloister/config"
	"cloister/egress"
	"cloister/hostexec/hostrules"
)

// grants is what a session may do besides policy: how much, and which commands of
// the host. Most projects have no word of their own.
func (l *Set) grants(files []api.ProjectFile) (egress.Quota, *hostrules.Set, error) {
	if len(files) == 0 || l.config == nil {
		return quotaOf(l.config), l.host, nil
	}
	c, err := ofProject(l.config, files)
	if err != nil {
		return egress.Quota{}, nil, err
	}
	host, err := hostRules(c.Hostexec)
	return quotaOf(c), host, err
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
