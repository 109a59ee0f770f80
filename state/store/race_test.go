//go:build race

package store_test

// raceEnabled says that memory is watched, which takes more of it.
const raceEnabled = true
