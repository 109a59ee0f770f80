//go:build !cloister_layeroff

package court

import (
	"cloister/hostexec"
	"cloister/hostexec/hostrules"
	"cloister/policy"
)

// Judge is policy's answer. judge_off.go, of test builds alone, has another.
func Judge(s *policy.Snapshot, r policy.Request) policy.Verdict { return policy.Decide(s, r) }

// JudgeCommand is what the rules of host commands say.
func JudgeCommand(rules *hostrules.Set, c *hostexec.Command) policy.Verdict { return rules.Judge(c) }
