package main

// byTests are figures that tests print and the bench does not measure: each names
// the test and how it is run again.
const byTests = `
## Told by tests

What connections that are read cost, from tests that print it (` + "`go test -v`" + `; with
` + "`CLOISTER_TEST_LONG=1`" + ` the long forms). Two cores shared with other work, load 5 to 12.

| what | figure | test |
|---|---|---|
| Claude Code, time to first token as it says | 24 to 36 ms directly, 32 to 82 ms inspected (the first request of a session, with both handshakes) | TestClaudeCodeStreams |
| Claude Code, from its start to its first token | 0.655 s directly, 0.650 s inspected in the best run; 0.96 and 2.30 s in the worst | TestClaudeCodeStreams |
| a token, from the model's write to the agent's output, median of twenty | 1.07 ms directly, 1.16 ms inspected in the best run; 1.1 and 3.7 ms in the worst | TestClaudeCodeStreams |
| an idle inspected connection (RS-08), 300 at once | 46 KiB, budget 64 KiB | TestIdleInspected |
| a request of a quiet session beside one that takes what it gets (RS-10) | p50 80 µs alone, 950 µs beside | TestNoisyNeighbour |
| a certificate for one more name (RS-18), 50,000 names | p50 0.12 ms, p99 0.99 ms; 1.6 MiB kept | TestManyLeaves |
| names with an address (RS-18), 50,000 asked for | 8,192 kept, 1 MiB; the rest are refused | TestManyNames |
| forty bodies of 8 MiB at once (RS-19) | at most 36 MiB in the whole process | TestBodiesAreNotHeld |
`
