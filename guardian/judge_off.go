//go:build cloister_layeroff

package guardian

import (
	"os"

	"cloister/policy"
)

// judge lets everything pass where the environment says that policy is the
// layer to leave out: what else holds is then to be seen.
func judge(s *policy.Snapshot, r policy.Request) policy.Verdict {
	v := policy.Decide(s, r)
	if os.Getenv("CLOISTER_LAYER_OFF") == "policy" {
		v.Effect = policy.Allow
	}
	return v
}
