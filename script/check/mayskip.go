package main

import (
	"regexp"
	"slices"
	"strings"
)

// A skip is a test that may be skipped, with the reason.
type skip struct {
	as    string // by whom: root, user or both
	tests string // a pattern of PACKAGE.TEST
	why   string
}

// maySkips are all of them: here every need is met, and a skip proves nothing.
var maySkips = []skip{
	{"root user", `cloister/(sandbox/docker|cmd/cloister|cmd/cloister/realtest)\.TestEngine.*`, "the part docker runs them, beside an engine of its own"},
	{"root user", `cloister/sandbox/gvisor\.Test(Conformance|Tools|ReseedIsWhatDiffers|SaverKilled|Ends.*)`, "the part gvisor builds its program, which takes minutes"},
	{"root user", `cloister/sandbox/microvm\.Test(Machine|Conformance|Without).*`, "the part microvm boots machines, emulated"},
	{"root user", `cloister/cmd/cloister/machinetest\.Test.*`, "the same"},
	{"root user", `cloister/cmd/cloister\.TestGVisor(Stories|Memory)`, "the same"},
	{"root user", `cloister/sandbox/sandboxtest/tools\.TestControl`, "a usual machine lacks tools: script/test tools installs them"},
	{"root user", `cloister/cmd/cloister\.Test(UserLevel|Machine)Stories`, "the part stories has these levels"},
	{"root user", `cloister/sandbox/localuser\.TestTools`, "native's again, with the same filter: CLOISTER_TEST_LONG=1"},
	{"root user", `cloister/sandbox/localuser\.TestAsCaller.*`, "the other tests run them again, as callers of the helper"},
	{"root", `.*/loadtest\.TestOutOfMemory/(user|gvisor|docker)`, "the part stories has these levels"},
	{"user", `.*/loadtest\.TestOutOfMemory`, "a control group around all of Cloister is root's"},
	{"user", `cloister/cmd/cloister\.TestStories/user_level`, "the helper is root's"},
	{"user", `cloister/sandbox/localuser\.Test.*`, "the helper is root's"},
	{"root user", `.*/realtest\.TestRealCargo`, "a toolchain of the person's own, which a fresh machine has not"},
	{"root user", `.*/realtest\.TestSRT`, "CLOISTER_SRT names the srt command, which needs socat and ripgrep"},
	{"root user", `.*/realtest\.TestRealPyenv`, "a toolchain of the person's own, which a fresh machine has not"},
	{"root user", `cloister/state/store\.TestKillChild`, "the process that TestKillStorm ends"},
	{"root user", `.*/realtest\.TestGitHubCLI`, "a program of 40 MB, which a fresh machine has not"},
	{"root user", `.*/realtest\.TestOpenedCargo/.*`, "a compiler of 500 MB, which a fresh machine has not"},
	{"root user", `.*/realtest\.TestReadByJava`, "a compiler of 300 MB, which a fresh machine has not"},
	{"user", `cloister/internal/cgroup\.Test.*`, "an ordinary user can make no control groups of version 1"},
	{"user", `cloister/sandbox/native\.Test(LeftoversOfAnInstance|LosesItsJudge)`, "the same"},
	{"user", `cloister/hostexec\.Test(.*/control_group|ProcessorTime/of_many_processes|MemoryAndProcesses)`, "the same"},
	{"root user", `.*/realtest\.TestFirstDay`, "twenty starts of five agents: CLOISTER_TEST_LONG=1"},
	{"root user", `.*/realtest\.TestTurns(InTheWindow)?`, "six agents and their tests: CLOISTER_TEST_LONG=1"},
	{"root user", `.*/realtest\.TestCodexTurns`, "three starts of an agent: CLOISTER_TEST_LONG=1"},
	{"root user", `.*/realtest\.TestAgentsByLevel`, "two agents on each level, on machines for minutes: CLOISTER_LEVELS"},
	{"root user", `.*/realtest\.TestLearned`, "seven starts of three programs: CLOISTER_TEST_LONG=1"},
	{"root user", `cloister/cmd/cloister-fleet\.Test(Collector|Bucket)`, "script/test telemetry and bucket build the other end, in two minutes"},
	{"root user", `.*/servetest\.TestSDK.*`, "E2B's SDK needs a newer node than Debian's"},
	{"root user", `.*/realtest\.TestForkedFiveWays`, "six agents on a kernel that takes minutes to build: CLOISTER_TEST_LONG=1"},
	{"root user", `.*/realtest\.TestWeek`, "two minutes on a busy machine: CLOISTER_TEST_LONG=1"},
	{"root user", `.*/realtest\.TestWorkingDay`, "sixteen days of downloads: CLOISTER_TEST_LONG=1"},
	{"root user", `cloister/(kernel/lsm|cmd/cloister/lsmtest)\.Test(Guest|Kernel.*|Product.*|WeakKernels|Cost)`, "in guests with other kernels, which take two minutes: the part lsm"},
	{"root user", `cloister/kernel/lsm\.TestObjectsCompile`, "the compiler that made the objects, which a fresh machine has not: the part lsm"},
	{"root user", `cloister/bench/gated\.Test(WhatIsWrittenArrives|Conflicts)`, "an experiment that fails at times, as its decision says: CLOISTER_GATED"},
	{"root user", `cloister/serve(\.TestScale|/servertest\.TestRows)`, "a minute: CLOISTER_LOAD=full"},
	{"root user", `.*/servetest\.Test(Suite|ManyCalls)`, "script/test e2b fetches the suite; CLOISTER_LOAD=full"},
	{"root user", `cloister/policy/leashtest\.TestPublished`, "a checkout of Leash, whose texts are none of ours: CLOISTER_LEASH"},
	{"root user", `.*/realtest\.TestCertificates`, "the part clients installs its programs"},
	{"root user", `.*/realtest\.TestReadPostgres`, "a server whose package starts one on the machine, which a fresh machine has not"},
}

func maySkip(as, test string) bool {
	return slices.ContainsFunc(maySkips, func(s skip) bool {
		return slices.Contains(strings.Fields(s.as), as) && regexp.MustCompile("^(?:"+s.tests+")$").MatchString(test)
	})
}
