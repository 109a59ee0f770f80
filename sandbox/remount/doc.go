// Package remount watches the mounts of a running cloister, so that a protected
// path is covered again when the host took its mount away.
//
// The kernel removes a mount when the file under it is removed or replaced from
// outside, as an editor or git on the host does. The promise: Watch sees that
// within a quarter of a second, and as a rule at once, and ends with an error when
// covering fails, on which its caller ends the cloister. The package mounts
// nothing itself: each driver covers paths from where it has the right to. Most
// readers want Watch and Missing.
package remount
