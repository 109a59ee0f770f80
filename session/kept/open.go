package kept

import (
	"cloister/config"
	"cloister/internal/xdg"
	"cloister/state/quota"
	"cloister/state/store"
)

// Open opens the store of a person's workspaces with the quotas of the configuration.
// project is what [store.Open] takes.
func Open(dirs xdg.Dirs, project string) (*store.Store, error) {
	c, _, err := config.Load(dirs.Config)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dirs.Data, project)
	if err == nil {
		s.Quota = quota.Bounds{Project: int64(c.State.ProjectQuota), Whole: int64(c.State.Quota)}
	}
	return s, err
}
