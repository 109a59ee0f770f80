// Package forked measures what a checkpoint with memory holds still, and how soon its forks run,
// beside runsc's own checkpoint and restore of the same process.
//
// The process has 100 MiB and looks at the clock every two milliseconds: what it missed, and when
// it went on, it writes down itself, so no figure has the way to it in it.
//
// The call most readers want is [Measure].
package forked
