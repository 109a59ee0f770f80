//go:build !cloister_layeroff

package guardian

import (
	"cloister/hostexec"
	"cloister/policy"
)

// judge is policy's answer. judge_off.go, of test builds alone, has another.
func judge(s *policy.Snapshot, r policy.Request) policy.Verdict { return policy.Decide(s, r) }

// judgeCommand is what the rules of host commands say.
func judgeCommand(rules *hostexec.Rules, c *hostexec.Command) hostexec.Verdict { return rules.Judge(c) }
