//go:build !cloister_layeroff

package guardian

import "cloister/policy"

// judge is policy's answer. judge_off.go, of test builds alone, has another.
func judge(s *policy.Snapshot, r policy.Request) policy.Verdict { return policy.Decide(s, r) }
