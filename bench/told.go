package main

// byTests are figures that tests print and the bench does not measure: each names
// the test and how it is run again.
const byTests = `
## Told by tests

What connections that are read cost, from tests that print it (` + "`go test -v`" + `; with
` + "`CLOISTER_TEST_LONG=1`" + ` the long forms). Two cores shared with other work, load 5 to 25.

| what | figure | test |
|---|---|---|
| Claude Code, time to first token as it says | 24 to 36 ms directly, 32 to 82 ms inspected (the first request of a session, with both handshakes) | TestClaudeCodeStreams |
| Claude Code, from its start to its first token | 0.655 s directly, 0.650 s inspected in the best run; 0.96 and 2.30 s in the worst | TestClaudeCodeStreams |
| a token, from the model's write to the agent's output, median of twenty | 1.07 ms directly, 1.16 ms inspected in the best run; 1.1 and 3.7 ms in the worst | TestClaudeCodeStreams |
| an idle inspected connection (RS-08), 9,900 at once | 44.3 KiB, budget 64 KiB | TestIdleInspected |
| a request beside 9,900 idle connections (RS-08), 500 a second | p50 190 µs, p99 2.2 ms; alone 190 µs and 2.7 ms (load 25) | TestIdleInspected |
| a request of a quiet session beside one that takes what it gets (RS-10) | p50 52 µs alone, 458 µs beside; p99 5.4 and 18 ms (load 20) | TestNoisyNeighbour |
| a certificate for one more name (RS-18), 50,000 names | p50 0.12 ms, p99 0.99 ms (5.3 ms at load 15); 1.6 MiB kept | TestManyLeaves |
| names with an address (RS-18), 50,000 asked for | 8,192 kept, 1 MiB; the rest are refused | TestManyNames |
| the disk of the record full ten times under load (RS-04) | 4,000 requests refused, none of those that went out is unrecorded; back 0.57 s after there is space, 0.71 s at most; load 15 to 25 | TestDiskFull, CLOISTER_LOAD=full |
| 2,000 connections that begin a request and do not go on (RS-06) | 671 refused at the bound; others' p99 30.3 ms beside them and 30.3 ms alone, at load 15 to 25; 13 KiB each; all freed after 3.7 s | TestSlowClients, CLOISTER_LOAD=full |
| forty bodies of 8 MiB at once (RS-19) | at most 36 MiB in the whole process | TestBodiesAreNotHeld |
`
