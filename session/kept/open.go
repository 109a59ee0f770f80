package kept

import (
	"fmt"

	"cloister/config"
	"cloister/internal/xdg"
	"cloister/state/quota"
	"cloister/state/sealed"
	"cloister/state/store"
)

// Recipients are those of the configuration to which a checkpoint is sealed that leaves the
// store.
func Recipients(dirs xdg.Dirs) ([]string, error) {
	c, _, err := config.Load(dirs.Config)
	if err != nil {
		return nil, err
	}
	if err := sealed.Check(c.State.Recipients); err != nil {
		return nil, fmt.Errorf("state.recipients: %w", err)
	}
	return c.State.Recipients, nil
}

// EncryptsMemory reports whether memories are encrypted on the disk, as the configuration says.
func EncryptsMemory(dirs xdg.Dirs) (bool, error) {
	c, _, err := config.Load(dirs.Config)
	if err != nil {
		return false, err
	}
	return c.State.EncryptMemory, nil
}

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
