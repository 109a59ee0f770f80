package main

// relayWord makes this program the least that can stand between a client and a
// server: it accepts, dials and lets the kernel copy. It decides nothing and
// records nothing, so what it costs is what standing in between costs here.
const relayWord = "relay"

// bare is the name of that peer.
const bare = "bare relay in Go"
